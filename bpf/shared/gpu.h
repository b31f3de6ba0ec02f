/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What libfuncsnoop-gpu.so hands to whoever probes it: what a GPU did, by the batch. Commands,
 * programs and the library may be of different versions: what is here only grows at its end.
 */
#ifndef FUNCSNOOP_SHARED_GPU_H
#define FUNCSNOOP_SHARED_GPU_H

/* Probes of provider funcsnoop_gpu, each with the address of a batch. */
#define FSN_GPU_PROVIDER "funcsnoop_gpu"
#define FSN_GPU_LIB      "funcsnoop-gpu"

/*
 * Beside each, of provider funcsnoop_gpu_duty, probes whose code nobody runs: that one is there
 * says that of so many seconds one is to be recorded. X(what, number, seconds).
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

/* In words, which keys and sums go by, and which of them say where it ran. */
#define FSN_GPU_ARG_DEVICE 3
#define FSN_GPU_ARG_STREAM 4
struct fsn_gpu_record {
	unsigned long long name; /* address of its text, the same for the same */
	unsigned long long ns;   /* or FSN_GPU_UNTIMED: the driver has lost its times */
	unsigned long long bytes;
	unsigned long long device, stream;
	unsigned long long kind; /* of a copy, as CUPTI has it */
	unsigned long long start; /* CLOCK_MONOTONIC, ns; 0: it is not known */
};

/*
 * The call that has launched a kernel: its thread, the low half of that's pointer to its own data,
 * and from when to when it took; .end is 0 where it is not known.
 */
struct fsn_gpu_launch {
	unsigned long long begin, end; /* CLOCK_MONOTONIC, ns */
	unsigned int thread;
	unsigned int number; /* of the call, in its process */
};

/* State of recording GPU activity in a process. */
enum fsn_gpu_state {
	FSN_GPU_RUNS,    /* it is recorded */
	FSN_GPU_NO_LIB,  /* there is no libcupti */
	FSN_GPU_REFUSED, /* that has said no: .code */
	FSN_GPU_TAKEN,   /* another tool uses that */
};

#define FSN_GPU_WHO 64
struct fsn_gpu_batch {
	unsigned int cnt, state;
	int code;
	unsigned int idle_s;        /* seconds without a buffer */
	unsigned long long dropped; /* records that CUPTI dropped, ever */
	char who[FSN_GPU_WHO];      /* libcupti, or the other tool */
	unsigned int window_s, period_s; /* it is recorded for so long in so long; 0: always */
	struct fsn_gpu_record record[FSN_GPU_BATCH];
	struct fsn_gpu_launch launch[FSN_GPU_BATCH]; /* of these records, if requested */
};

/* What libcupti would say here: a library's function of that name fills one, and returns 0. */
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
	unsigned int window_s, period_s, pad;
	char who[FSN_GPU_WHO];
};

#endif
