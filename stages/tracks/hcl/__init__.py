"""Code that the HCL stages share: items, batches, keyword lookup, decoding."""
