"""The nouns: frozen typed records without I/O. Everything else imports these; they import nothing."""
