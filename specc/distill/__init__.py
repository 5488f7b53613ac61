"""Training drafters from a verifier alone. The one part of specc that needs torch, imported when it is asked for."""
