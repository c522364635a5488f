"""Compiled functions as folders of files for builds that have neither Python nor this library.

`interface` is what callers see of a function; `c_main`, `cl_launcher`, `python` and `readme` write files from it,
`folder` puts them where they belong. Kernels come from `exports`, whole models from `graph.export`.
"""
