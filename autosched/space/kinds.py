"""Names of search spaces, for those who must not load one to know them."""

#: where sketches come from: templates that someone wrote, rules, or both
SPACES = ("templates", "auto", "all")
