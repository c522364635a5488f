"""Every feature and what it means.

"main" is the store with the most loops around it, of those with much of the arithmetic; sums run over all
stores. Index arithmetic, choices and guards are those of the sketch: what one value of a knob would
resolve is counted all the same, and footprints are upper bounds.
"""

from __future__ import annotations

import hashlib

#: name -> meaning
FEATURES = {
    # work.py: arithmetic and accesses
    "iterations": "store executions, all stores",
    "arithmetic": "arithmetic on values, in units of one add",
    "vector_arithmetic": "the same in instructions: a vector counts as often as it fills what a pipe takes at once",
    "index_arithmetic": "index operations that are left in the innermost body",
    "choices": "selects and clamps evaluated",
    "guards": "conditions tested",
    "bytes_loaded": "bytes read, counting every access",
    "bytes_stored": "bytes written",
    "vector_loads": "load instructions, where one vector access counts once",
    "vector_stores": "store instructions: a vector counts as often as it fills registers",
    "strided_loads": "loads whose vector lanes are not contiguous",
    "gathered_loads": "of a vector's lanes, those that are loaded one at a time: far apart, or anywhere",
    "masked_loads": "of a vector's lanes, those that are loaded if a condition of their own holds",
    "cut_vectors": "vectors that end before their last lane, at a size known at the call only; of sums of rows several",
    "streamed_bytes": "bytes written past the caches",
    "scattered_updates": "updates where data say, of each as many as may wait for the one before",
    "recomputation": "stores to intermediates for each store to an output",
    "main_stage_share": "share of all store executions that the main store has",
    "side_iterations": "store executions outside the main store's nest, such as packing and padding",
    "side_bytes": "bytes read and written there",
    "side_strided_loads": "loads there whose vector lanes are not contiguous",
    "side_task_iterations": "store executions there that follow each other in one task",
    "side_waits": "steps of floating-point sums outside the main store that wait for the one before",
    # memory.py: footprints, traffic and reuse
    "traffic": "distinct bytes touched by the whole main store",
    "task_footprint": "distinct bytes touched by one parallel task or work-group, main store",
    "shared_by_tasks": "distinct bytes there of buffers of which the tasks together touch twice as many or more",
    "inner_footprint": "distinct bytes touched inside the innermost serial loop's iteration, main store",
    "row_footprint": "distinct bytes touched by one whole innermost serial loop, main store",
    "reuse": "bytes loaded for each distinct byte of the main store",
    "bytes_into_l1": "bytes that the first-level caches fetch",
    "bytes_into_l2": "bytes that the second-level caches fetch",
    "bytes_into_l3": "bytes that the last-level cache fetches from memory",
    "l1_reuse": "bytes loaded for each byte that the first-level caches fetch",
    "l2_reuse": "bytes that the first-level caches fetch for each that the second-level ones do",
    "l3_reuse": "bytes that the second-level caches fetch for each from memory",
    "l2_intensity": "arithmetic for each byte that the second-level caches fetch",
    "memory_intensity": "arithmetic for each byte from memory",
    "reuse_distance": "bytes touched until a value of the main store is read again, the farthest of its loads",
    "row_pages": "pages of 4 KiB touched by one whole innermost serial loop, main store",
    "crowded_rows": "rows there that lie whole pages apart, so that they compete for places in a cache",
    "prefetch_distance": "bytes from where reading is to where it is asked for ahead, the farthest",
    "private_bytes": "bytes of intermediates in one task",
    "global_intermediate_bytes": "bytes of intermediates in main memory",
    # work.py: vectors and written-out code
    "lanes": "vector lanes, main store",
    "vector_bytes": "bytes of one vector of the main store",
    "vector_fill": "share of the machine's vector registers that its vectors fill",
    "unrolled": "copies of the main store that are written out",
    "accumulators": "vector registers that the copies of the main store write",
    "independent_sums": "the same for the innermost serial loop, or lanes that seldom change one: none waits; the "
    "fewer, the more operations a combiner does one after the other",
    "live_vectors": "vector registers that the written-out body of the main store needs at once, at least",
    "spilled_vectors": "how many of them the machine does not have",
    "spills": "times that a register which the machine does not have is needed, all stores",
    "register_loads": "load instructions, where copies that read the same vector share one",
    "loads_for_each_store": "the same for each vector that the main store's body writes",
    "code_size": "instructions that are written out, of the longest nest: others run before it, or after",
    "innermost_extent": "iterations of the innermost serial loop around the main store",
    "loops": "serial loops around the main store",
    # work.py: tasks, work-groups, waste
    "tasks": "iterations of parallel loops, or work-groups, main store",
    "task_iterations": "store executions in one task, main store",
    "imbalance": "time that units take for the tasks, for each they would take if none had to wait at the end",
    "regions": "parallel loops that are begun, or kernels launched",
    "waste": "iterations run for each element of the output that is needed",
    "axis_waste": "elements that loops reach for each there is, along the worst axis of the output",
    "row_waste": "the same along the innermost axis",
    "threads": "work-items in a work-group, main store",
    "threads_x": "work-items along the first axis of a work-group",
    "warp_fill": "share of its warps' lanes that a work-group uses",
    "shared_bytes": "bytes of shared memory of a work-group",
    "resident_groups": "work-groups whose shared memory fits a unit at once",
    "uncoalesced_loads": "loads from main memory where neighbouring work-items do not read neighbours",
    "bank_conflicts": "loads from shared memory, as often as work-items queue for one of 32 banks",
}
FEATURE_NAMES = tuple(FEATURES)
#: Given as they are, not as log2(1 + x).
PLAIN = frozenset({"main_stage_share", "loops", "vector_fill", "warp_fill"})
#: Changes with the names, and by hand when a column of the same name begins to mean something else.
FEATURE_VERSION = hashlib.sha256("\n".join(("12", *FEATURE_NAMES)).encode()).hexdigest()[:12]
