/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Batches of GPU activity, and of NVTX ranges, that libfuncsnoop-gpu.so passes to probes.
 * Commands, BPF programs and the library can have different versions, so these structs
 * only grow at the end.
 */
#pragma once

/* Probes of provider funcsnoop_gpu, each with the address of a batch. */
#define FSN_GPU_PROVIDER "funcsnoop_gpu"
#define FSN_GPU_LIB      "funcsnoop-gpu"

/*
 * The library also has probes of provider funcsnoop_gpu_duty, which are never executed.
 * Attaching one requests that one second in N is recorded. X(what, number, N).
 */
#define FSN_GPU_DUTY_PROVIDER FSN_GPU_PROVIDER "_duty"
#define FSN_GPU_DUTY_CNT      16
#define FSN_GPU_DUTIES(X, what)                                                        \
	X(what, 0, 1) X(what, 1, 2) X(what, 2, 3) X(what, 3, 4) X(what, 4, 5)          \
	X(what, 5, 6) X(what, 6, 8) X(what, 7, 10) X(what, 8, 12) X(what, 9, 15)       \
	X(what, 10, 20) X(what, 11, 30) X(what, 12, 60) X(what, 13, 120)               \
	X(what, 14, 300) X(what, 15, 600)

/* The same: a probe of this provider requests the call that launched each kernel. */
#define FSN_GPU_ASK_PROVIDER FSN_GPU_PROVIDER "_ask"
#define FSN_GPU_ASK_LAUNCHES "launches"

#define FSN_GPU_BATCH   64
#define FSN_GPU_UNTIMED (~0ULL)
#define FSN_GPU_RANGE "range" /* the argument with its name, and the key */
#define FSN_GPU_NO_STREAM (~0ULL) /* an NVTX range: .bytes is its self time, .device its thread */

/* Indices of words, for keys and sums; these two say where the activity ran. */
#define FSN_GPU_ARG_DEVICE 3
#define FSN_GPU_ARG_STREAM 4
struct fsn_gpu_record {
	/* address of its name; equal names have equal addresses */
	unsigned long long name;
	unsigned long long ns;   /* or FSN_GPU_UNTIMED: the driver has lost its times */
	unsigned long long bytes;
	unsigned long long device, stream;
	unsigned long long kind; /* of a memcpy: CUpti_ActivityMemcpyKind */
	unsigned long long start; /* CLOCK_MONOTONIC, ns; 0: not known */
};

/*
 * The call that launched a kernel: its thread, as the low half of the thread pointer, and
 * its start and return. .end is 0 if they are not known.
 */
struct fsn_gpu_launch {
	unsigned long long begin, end; /* CLOCK_MONOTONIC, ns */
	unsigned int thread;
	unsigned int number; /* of the call, in its process */
};

/* State of recording GPU activity in a process. */
enum fsn_gpu_state {
	FSN_GPU_RUNS,    /* recording */
	FSN_GPU_NO_LIB,  /* no libcupti */
	FSN_GPU_REFUSED, /* libcupti returned an error: .code */
	FSN_GPU_TAKEN,   /* another tool uses libcupti */
};

#define FSN_GPU_WHO 64
struct fsn_gpu_batch {
	unsigned int cnt, state;
	int code;
	unsigned int idle_s;        /* seconds without a buffer */
	unsigned long long dropped; /* records that CUPTI dropped, ever */
	char who[FSN_GPU_WHO];      /* libcupti, or the other tool */
	/* recorded for window_s in each period_s seconds; 0: always */
	unsigned int window_s, period_s;
	struct fsn_gpu_record record[FSN_GPU_BATCH];
	struct fsn_gpu_launch launch[FSN_GPU_BATCH]; /* of these records, if requested */
	/* of ranges, which are not in .record: struct fsn_gpu_thread [FSN_GPU_THREADS], and the list */
	unsigned long long threads, ranges;
};

/*
 * The finished ranges of a process: number n is at n % FSN_GPU_RANGES. The BPF programs read them
 * when the library says so, and when the process ends.
 */
#define FSN_GPU_RANGES 4096
struct fsn_gpu_ranges {
	unsigned long long tail, head; /* numbers of the first one not passed on, and of the next one */
	unsigned long long dropped; /* ever: these have no times */
	struct fsn_gpu_record record[FSN_GPU_RANGES];
};

/*
 * The innermost NVTX range of a thread, as the address of its name; 0: none. A thread's place is
 * found by its thread pointer: the first of several places that has it.
 */
#define FSN_GPU_THREADS       8192 /* a power of two */
#define FSN_GPU_THREAD_PROBES 8
struct fsn_gpu_thread {
	unsigned long long pointer; /* 0: free */
	unsigned long long range;
};

static inline __attribute__((always_inline)) unsigned int gpu_thread_place(
	unsigned long long pointer, unsigned int nth)
{
	return ((pointer * 0x9e3779b97f4a7c15ULL >> 32) + nth) & (FSN_GPU_THREADS - 1);
}

/*
 * Tries to start recording: the library's function of this name fills the struct and
 * returns 0.
 */
#define FSN_GPU_TRY "funcsnoop_gpu_try"
struct fsn_gpu_tried {
	unsigned int state;
	int code;
	char who[FSN_GPU_WHO];
};

#define FSN_GPUS 1024

/* Last report of a process. */
struct fsn_gpu {
	unsigned long long start; /* of the process: CLOCK_BOOTTIME, ns */
	unsigned long long dropped;
	unsigned int state, idle_s;
	int code;
	unsigned int window_s, period_s, fn; /* .fn: of ranges */
	char who[FSN_GPU_WHO];
	unsigned long long exec_id;
	unsigned long long ranges, counted; /* address of the list; number of the first one not counted */
};
