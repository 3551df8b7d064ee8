"""The commands of `groupferry`: their flags, and what each prints."""
