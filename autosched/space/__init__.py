"""Search spaces: workloads, templates and rules, and the sketches and points that they make.

Nothing is loaded with the package itself, so that the names of spaces can be known without loading one.
"""

#: where sketches come from: templates that someone wrote, rules, or both
SPACES = ("templates", "auto", "all")
