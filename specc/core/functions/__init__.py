"""The function library of domain `specc`: one file a subject, each function with a standard-op body."""
