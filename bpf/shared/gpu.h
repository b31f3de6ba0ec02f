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

#define FSN_GPU_BATCH   64
#define FSN_GPU_UNTIMED (~0ULL)

/* In words, which keys and sums go by. */
struct fsn_gpu_record {
	unsigned long long name; /* address of its text, the same for the same */
	unsigned long long ns;   /* or FSN_GPU_UNTIMED: the driver has lost its times */
	unsigned long long bytes;
	unsigned long long device, stream;
	unsigned long long kind; /* of a copy, as CUPTI has it */
};

/* What becomes of the activity of a process. */
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
	unsigned int idle_s;        /* so long no buffer has come */
	unsigned long long dropped; /* records that CUPTI had no room for, ever */
	char who[FSN_GPU_WHO];      /* libcupti, or the other tool */
	struct fsn_gpu_record record[FSN_GPU_BATCH];
};

#define FSN_GPUS 1024

/* What a process has said last. */
struct fsn_gpu {
	unsigned long long start; /* of the process: CLOCK_BOOTTIME, ns */
	unsigned long long dropped;
	unsigned int state, idle_s;
	int code;
	unsigned int pad;
	char who[FSN_GPU_WHO];
};

#endif
