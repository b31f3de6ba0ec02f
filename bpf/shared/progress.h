/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Calls in progress, as the programs and the command share them: a part of layout.h. */
#ifndef FUNCSNOOP_SHARED_PROGRESS_H
#define FUNCSNOOP_SHARED_PROGRESS_H

#include "words.h"

/*
 * The key of a slot, one word that is claimed and given back by compare-and-exchange:
 * generation (18 bits, so that a claim is never mistaken for an earlier one), left (1), ghost
 * (1), by-ret (1), process (22 bits: PID_MAX_LIMIT of include/linux/threads.h), function + 1
 * (21 bits). Where the call is stands beside it, and tells calls of one function in one
 * process apart: of a program's function that is the user's stack pointer. A free slot has
 * nothing below the generation; one that is being written has process 0 and all function bits.
 *
 * A ghost is a call that was given up: it is counted as abandoned, and its place is anybody's
 * who finds no free one. Until then an end that fits takes it, and counts as revived: what
 * is abandoned is abandoned - revived, and both only grow.
 *
 * A call that has left by a jump which is followed is marked as such: fsn_marks says where it
 * went. It is no ghost when it is given up: its end could not be told from another's.
 */
#define FSN_KEY_FN_BITS    21
#define FSN_KEY_TGID_SHIFT FSN_KEY_FN_BITS
#define FSN_KEY_TGID_BITS  22
#define FSN_KEY_BYRET      (1ULL << 43)
#define FSN_KEY_GHOST      (1ULL << 44)
#define FSN_KEY_LEFT       (1ULL << 45)
#define FSN_KEY_GEN        (1ULL << 46)
#define FSN_KEY_FN_MASK    ((1ULL << FSN_KEY_FN_BITS) - 1)
#define FSN_KEY_TGID_MASK  (((1ULL << FSN_KEY_TGID_BITS) - 1) << FSN_KEY_TGID_SHIFT)
#define FSN_KEY_CALL_MASK  (FSN_KEY_FN_MASK | FSN_KEY_TGID_MASK)
#define FSN_KEY_USED_MASK  (FSN_KEY_CALL_MASK | FSN_KEY_BYRET | FSN_KEY_GHOST | FSN_KEY_LEFT)
#define FSN_KEY_GEN_MASK   (~FSN_KEY_USED_MASK)
#define FSN_KEY_LOCKED     FSN_KEY_FN_MASK

#define FSN_WAYS     8
#define FSN_SLOTS_MIN (1 << 14) /* a group has a power of two between these */
#define FSN_SLOTS_MAX (1 << 16)
#define FSN_NO_PROC  0x40000000U /* with the epoch in which the table was full */

/*
 * How many places a process has beyond the first ones of their sets. It has at most a quarter of
 * the table, FSN_HELD_MAX: with all first ones three eighths. By process number, cut.
 */
#define FSN_HELD_CNT 16384
#define FSN_HELD_MAX(slots) ((slots) / 4)
#define FSN_HELD_MANY(slots) (FSN_HELD_MAX(slots) / 8) /* it leaves one place of each set to others */
#define FSN_OWN_STACKS 4096
struct fsn_held {
	unsigned int cnt[FSN_HELD_CNT];
	unsigned long long own_stack[FSN_OWN_STACKS]; /* where stacks of threads begin; bpf/slots.bpf.h */
};

#define FSN_HAS_ARGS 0x80000000U /* its arguments were kept */
#define FSN_OF_ZERO  0x20000000U /* a size was 0: NULL is not an error (fsn_conf.zero) */
#define FSN_PROC_OF(proc) ((proc) & ~(FSN_HAS_ARGS | FSN_OF_ZERO))

/* What is known of a call. Those of one place are on one cache line, the keys on another. */
struct fsn_call {
	unsigned long long where; /* beside the key; of a program's function at its return address */
	unsigned long long start; /* CLOCK_MONOTONIC, ns */
	unsigned long long task;  /* address of the thread's task_struct */
	unsigned int tid;
	unsigned int proc; /* in fsn_procs or FSN_NO_PROC; FSN_HAS_ARGS, FSN_OF_ZERO */
};

struct fsn_set {
	unsigned long long key[FSN_WAYS];
	struct fsn_call call[FSN_WAYS];
};

/* Where a call that has left by a jump goes on; of each slot. */
struct fsn_mark {
	unsigned long long back; /* its return address, as the jump found it */
	unsigned int to;         /* number of the place */
	unsigned int waits;      /* whose entry is probed, and has not been seen since */
	unsigned int hits;       /* of jumps and of such entries, on its way */
	unsigned int pad;
};

/*
 * A tail-called function that is not in the group. Its probes cost its other callers as much as the
 * calls that are tracked to it: once they are hit that often by others, no more calls are, and the
 * next command that may removes the links.
 */
struct fsn_place {
	unsigned long long hits; /* of its ends */
	unsigned long long ended; /* calls that ended by them */
	unsigned int fn; /* the function that has its hits among its own */
	unsigned int link, link_cnt; /* the pins of its links: from link_N on */
	unsigned int removed;        /* they are gone */
};
#define FSN_DEAR_MIN 1024

static inline __attribute__((always_inline)) int place_is_dear(
	unsigned long long hits, unsigned long long ended)
{
	return hits >= FSN_DEAR_MIN && hits > 2 * ended;
}

/*
 * A word that names an open call: its slot (16 bits) and which one it is there (19). A
 * thread's has above them whose it is: the number of the program that it runs (7 bits of
 * self_exec_id), and its thread id (22).
 */
#define FSN_OPEN_NTH_SHIFT  16
#define FSN_OPEN_SLOT_MASK  (FSN_SLOTS_MAX - 1)
#define FSN_OPEN_EXEC_SHIFT 35
#define FSN_OPEN_TID_SHIFT  42
#define FSN_OPEN_CALL_MASK  ((1ULL << FSN_OPEN_EXEC_SHIFT) - 1)
#define FSN_OPEN_EXEC_MASK  ((1ULL << FSN_OPEN_TID_SHIFT) - 1 - FSN_OPEN_CALL_MASK)

#define FSN_NEST_AGAIN 1U /* its function is open outside of it, too */
#define FSN_NEST_TAKEN 2U /* its time is off the call that it was made in */
#define FSN_NEST_LAUNCH 4U /* a kernel is launched: what it calls launches the same */

/* Run-queue latency of a thread, in units of 2^6 ns, cut: differences up to 275 s are right. */
#define FSN_DELAY_SHIFT 6

/* How a call is nested, by slot. Times are those of the calls made in it that have returned. */
struct fsn_nest {
	unsigned long long parent;    /* the call that it was made in, or 0 */
	unsigned long long inner_ns;  /* their time */
	unsigned long long probes_ns; /* of probes, theirs and others, and lost in them */
	unsigned long long pad;       /* a cache line each */
	unsigned int open;      /* functions open in it, itself included, by number % 32 */
	unsigned int nth;       /* one more with each call in the slot */
	unsigned int flags;     /* FSN_NEST_... */
	unsigned int path;      /* that it is counted in */
	unsigned int under;     /* 1 + path under which what it calls is */
	unsigned int delay;     /* run-queue latency of its thread when it began, ever */
	unsigned int inner_delay; /* that in calls inside */
	unsigned int preempted; /* how often its thread was when it began, ever */
};

/* After the nests of the slots: the words of threads, by truncated thread id. */
#define FSN_THREADS      65536
#define FSN_THREADS_EACH (sizeof(struct fsn_nest) / sizeof(unsigned long long))

/* Of a call in progress, by slot, what the scheduler says of its thread; at its end how it was. */
struct fsn_split {
	unsigned long long switches; /* how often it was switched out */
	unsigned long long start;    /* since when its runtime is counted, by its CPU's clock */
	unsigned long long ran;      /* that runtime */
	unsigned long long delay;    /* runnable without a CPU */
	unsigned long long behind;   /* its CPU's clock of tasks behind that of all */
	unsigned int cpu;
	unsigned int known;          /* the call ended in that thread: */
	unsigned long long queued, blocked;
	/* Where it sleeps now: since when, or 0, by what stack; and what .delay was then. */
	unsigned long long slept, slept_delay;
	unsigned int stack, pad;
};

/*
 * Who called whom: each path, a function and the path that it was called under, has a place
 * in fsn_paths, at which stands its key: function + 1 (20 bits), and above them 1 + the path
 * of its caller, or 0. A place is claimed by compare-and-exchange and is never given back;
 * behind the last is that of all paths for which there was none. A function that is called
 * again inside of itself has a path of its own for that, under which nothing is: what it calls
 * is under the path of the outer call. So there are never more paths than ways through the
 * functions that pass each once.
 */
#define FSN_PATH_UNDER_SHIFT FSN_FN_BITS
#define FSN_PATH_PROBES      16
#define FSN_PATH_SHARDS      8 /* at most */

/* Statistics of a path on one shard of the CPUs. Index: shard * places + place. */
struct fsn_path {
	unsigned long long self_ns; /* of those that have returned; it may be below 0 */
	unsigned long long calls;
};

#endif
