/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The part of NVIDIA's libcupti that is used, declared here so that building needs no file of
 * NVIDIA. The first members of each record have not changed since CUDA 9 (cupti_activity.h:
 * CUpti_ActivityKernel4 to 10, Memcpy to Memcpy6, MemcpyPtoP to PtoP4, Memset to Memset4). No other
 * members are read.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "shared/gpu.h"

enum cupti_kind {
	CUPTI_MEMCPY = 1,
	CUPTI_MEMSET = 2,
	CUPTI_DRIVER = 4,  /* driver API calls */
	CUPTI_RUNTIME = 5, /* runtime API calls */
	CUPTI_CONCURRENT_KERNEL = 10,
	CUPTI_MEMCPY2 = 22, /* between GPUs */
	CUPTI_GRAPH = 51,
};

struct cupti_kernel {
	uint32_t kind;
	uint32_t config[3];
	uint64_t start, end, completed;
	uint32_t device, context, stream;
	int32_t grid[3], block[3], memory[2];
	uint32_t local[2], correlation;
	int64_t grid_id;
	const char *name;
};
_Static_assert(offsetof(struct cupti_kernel, device) == 40, "as CUPTI has it");
_Static_assert(offsetof(struct cupti_kernel, correlation) == 92, "as CUPTI has it");
_Static_assert(offsetof(struct cupti_kernel, name) == 104, "as CUPTI has it");

struct cupti_copy {
	uint32_t kind;
	uint8_t copy, from, to, flags; /* .copy: for CUPTI_MEMSET, the value */
	uint64_t bytes, start, end;
	uint32_t device, context, stream;
};
_Static_assert(offsetof(struct cupti_copy, stream) == 40, "as CUPTI has it");

/* CUpti_ActivityAPI */
struct cupti_call {
	uint32_t kind, number;
	uint64_t start, end;
	uint32_t process, thread; /* .thread: the lower half of pthread_self() */
	uint32_t correlation, result;
};
_Static_assert(offsetof(struct cupti_call, correlation) == 32, "as CUPTI has it");

/* CUpti_ActivityGraphTrace (since CUDA 11.7) and CUpti_ActivityGraphTrace2. */
struct cupti_graph {
	uint32_t kind, correlation;
	uint64_t start, end;
	uint32_t device, graph, context, stream;
};
_Static_assert(offsetof(struct cupti_graph, stream) == 36, "as CUPTI has it");

typedef void (*cupti_request_fn)(uint8_t **ret_buffer, size_t *ret_size, size_t *ret_records);
typedef void (*cupti_complete_fn)(
	void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid);

/* Each returns 0, or CUPTI's code. */
#define CUPTI_FUNCS(X)                                                                 \
	X(register_callbacks, cuptiActivityRegisterCallbacks, (cupti_request_fn, cupti_complete_fn)) \
	X(enable, cuptiActivityEnable, (uint32_t kind))                                \
	X(disable, cuptiActivityDisable, (uint32_t kind))                              \
	X(next, cuptiActivityGetNextRecord, (uint8_t * buffer, size_t valid, void **record)) \
	X(dropped, cuptiActivityGetNumDroppedRecords,                                  \
		(void *context, uint32_t stream, size_t *ret_dropped))                 \
	X(flush, cuptiActivityFlushAll, (uint32_t forced))                             \
	X(flush_period, cuptiActivityFlushPeriod, (uint32_t ms))                       \
	X(timestamp, cuptiGetTimestamp, (uint64_t *ret_ns))

/* NOLINTBEGIN(bugprone-macro-parentheses): of a declaration's parts */
struct cupti {
#define X(name, symbol, args) int(*name) args;
	CUPTI_FUNCS(X)
#undef X
};
/* NOLINTEND(bugprone-macro-parentheses) */
