"""The HCL generator: hierarchical contrasts over instances and keywords (ACL 2022)."""
