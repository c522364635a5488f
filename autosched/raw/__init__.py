"""Raw kernels: OpenCL or C that its user wrote, with parameters that `#define` sets.

    kernel     RawKernel: source, parameters, arguments, answer; what `tune` takes instead of a workload
    spec       the same as plain data, for workers; its key
    parameters values as knobs; geometry: work-groups and grid; formula: strings as expressions
    space      one sketch whose knobs are the parameters
    backend    a configuration compiled, in a worker
    signature  what the source declares

Everything else (strategies, measuring, records, reports) is what workloads use.
"""
