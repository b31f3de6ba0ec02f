// SPDX-License-Identifier: BSD-2-Clause
// By which calls kernels were launched: each has a number, which the kernel's record has, too.
#include <pthread.h>
#include <stdlib.h>

#include "gpu/launches.h"

/* A kernel's record comes so many calls after its launch, at most. */
#define CALLS (1U << 18)

struct call {
	uint32_t correlation, thread;
	uint64_t begin, end;
};

static struct call *calls;

bool launches_room(void)
{
	if (!calls)
		calls = calloc(CALLS, sizeof(*calls));
	return calls;
}

void launches_forget(void)
{
	free(calls);
	calls = NULL;
}

/* What the kernel has of a thread is its pointer to its own data, beside which its number lies. */
static uint32_t pointer_of(uint32_t thread)
{
#if defined(__x86_64__)
	return thread;
#else
	return thread + (uint32_t)((uintptr_t)__builtin_thread_pointer() - (uintptr_t)pthread_self());
#endif
}

void launches_keep(const struct cupti_call *c)
{
	struct call *call = calls ? &calls[c->correlation % CALLS] : NULL;

	if (!call || !c->correlation || !c->start || c->end < c->start)
		return;
	/* The runtime's call has the driver's in it. */
	if (call->correlation != c->correlation)
		*call = (struct call) { c->correlation, pointer_of(c->thread), c->start, c->end };
	if (c->start < call->begin)
		call->begin = c->start;
	if (c->end > call->end)
		call->end = c->end;
}

bool launches_find(uint32_t correlation, struct fsn_gpu_launch *ret)
{
	const struct call *call = calls ? &calls[correlation % CALLS] : NULL;

	if (!call || !correlation || call->correlation != correlation)
		return false;
	*ret = (struct fsn_gpu_launch) { .begin = call->begin, .end = call->end,
		.thread = call->thread, .number = correlation };
	return true;
}
