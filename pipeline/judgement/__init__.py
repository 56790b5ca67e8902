"""Human evaluation: what raters are asked, blinded sheets, reading them back, agreement and tests (METHODS E.5)."""
