/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Calls in progress, as shared by the BPF programs and the command: a part of layout.h. */
#pragma once

#include "words.h"

/*
 * Key of a slot, claimed and freed by compare-and-exchange of one word: generation (17
 * bits, so that two claims never have the same key), turn (1), left (1), ghost (1), by-ret (1),
 * process (22 bits: PID_MAX_LIMIT of include/linux/threads.h), function + 1 (21 bits).
 * fsn_call.where distinguishes calls of one function in one process: for a function of a
 * program it is the user stack pointer. A free slot has only a generation. A slot being
 * written has process 0 and all function bits.
 *
 * A ghost is the slot of an abandoned call. An entry that finds no free slot can reuse
 * it. Until then, a matching return takes it and counts as revived. Both counters only
 * grow, so the number of abandoned calls is abandoned - revived.
 *
 * FSN_KEY_LEFT marks a call that left through a tracked tail call; fsn_marks has the
 * target. Such a call leaves no ghost when it is abandoned, because its return could not
 * be distinguished from another call's.
 *
 * A session link sees only the returns of calls whose entries it has seen. FSN_KEY_TURN is the
 * turn bit of its cookies, so that calls of a replaced link are known.
 */
#define FSN_KEY_FN_BITS    21
#define FSN_KEY_TGID_SHIFT FSN_KEY_FN_BITS
#define FSN_KEY_TGID_BITS  22
#define FSN_KEY_BYRET      (1ULL << 43)
#define FSN_KEY_GHOST      (1ULL << 44)
#define FSN_KEY_LEFT       (1ULL << 45)
#define FSN_KEY_TURN_SHIFT 46
#define FSN_KEY_TURN       (1ULL << FSN_KEY_TURN_SHIFT)
#define FSN_KEY_GEN        (1ULL << 47)
#define FSN_KEY_FN_MASK    ((1ULL << FSN_KEY_FN_BITS) - 1)
#define FSN_KEY_TGID_MASK  (((1ULL << FSN_KEY_TGID_BITS) - 1) << FSN_KEY_TGID_SHIFT)
#define FSN_KEY_CALL_MASK  (FSN_KEY_FN_MASK | FSN_KEY_TGID_MASK)
#define FSN_KEY_USED_MASK  (FSN_KEY_CALL_MASK | FSN_KEY_BYRET | FSN_KEY_GHOST | FSN_KEY_LEFT | FSN_KEY_TURN)
#define FSN_KEY_GEN_MASK   (~FSN_KEY_USED_MASK)
#define FSN_KEY_LOCKED     FSN_KEY_FN_MASK

/*
 * fsn_call.where of a call that is matched by goroutine: FSN_GOROUTINE, the address of
 * the goroutine's struct runtime.g, and the distance of the return address to the end of
 * the stack. Go copies the stack to other memory when it grows; these two stay. No
 * address of a program or of the kernel has this bit of 64.
 *
 * A struct runtime.g is larger than 1 << FSN_G_SHIFT bytes, and user addresses have 48
 * bits, so both numbers are exact.
 */
#define FSN_GOROUTINE (1ULL << 62)
#define FSN_G_SHIFT   8
#define FSN_G_FRAMES  (1ULL << 22) /* in words; a deeper call has its stack address */

#define FSN_WAYS     8
#define FSN_SLOTS_MIN (1 << 14) /* the number of slots of a group is a power of two */
#define FSN_SLOTS_MAX (1 << 16)
#define FSN_NO_PROC  0x40000000U /* with the epoch in which the table was full */

/*
 * Per process, by truncated process number: how many slots it uses beyond the first slot
 * of each set. At most FSN_HELD_MAX, a quarter of the table; with all first slots that is
 * three eighths.
 */
#define FSN_HELD_CNT 16384
#define FSN_HELD_MAX(slots) ((slots) / 4)
/* above this, it leaves one slot of each set to others */
#define FSN_HELD_MANY(slots) (FSN_HELD_MAX(slots) / 8)
#define FSN_OWN_STACKS 4096
struct fsn_held {
	unsigned int cnt[FSN_HELD_CNT];
	/* start addresses of stacks; bpf/slots.bpf.h */
	unsigned long long own_stack[FSN_OWN_STACKS];
};

#define FSN_HAS_ARGS 0x80000000U /* its arguments are saved */
#define FSN_OF_ZERO  0x20000000U /* a size was 0: NULL is not an error (fsn_conf.zero) */
#define FSN_HAS_REGS 0x10000000U /* only those in registers are */
#define FSN_PROC_OF(proc) ((proc) & ~(FSN_HAS_ARGS | FSN_OF_ZERO | FSN_HAS_REGS))

/* A call in progress. The calls of a set share one cache line, their keys another. */
struct fsn_call {
	/* stack address; for a user function, that of its return address */
	unsigned long long where;
	unsigned long long start; /* CLOCK_MONOTONIC, ns */
	unsigned long long task;  /* address of the thread's task_struct */
	unsigned int tid;
	/* index in fsn_procs or FSN_NO_PROC; FSN_HAS_ARGS, FSN_OF_ZERO, FSN_HAS_REGS */
	unsigned int proc;
};

struct fsn_set {
	unsigned long long key[FSN_WAYS];
	struct fsn_call call[FSN_WAYS];
};

#define FSN_MARK_WAITS  1 /* the target's entry is probed and has not been hit since */
#define FSN_MARK_BEHIND 2 /* the call returns to a probed instruction */

/* Target of the tail call that a call left through. Index: slot. */
struct fsn_mark {
	unsigned long long back; /* return address, as read at the tail call */
	unsigned int to;         /* number of the target */
	unsigned int waits;      /* FSN_MARK_* */
	/* hits of tail calls and target entries during this call */
	unsigned int hits;
	unsigned int pad;
};

/*
 * A tail-called function that is not in the group. Its probes also slow down its other
 * callers. Once these hit them more often than tracked calls do (place_is_expensive()), no
 * more calls are tracked to it, and the next command with write access removes the links.
 */
struct fsn_place {
	unsigned long long hits; /* of its exit probes */
	unsigned long long ended; /* tracked calls that returned there */
	unsigned int fn; /* the function whose hits include these */
	/* the pins of its links: link_cnt from link_N; 0: its probes are among those of .fn */
	unsigned int link, link_cnt;
	unsigned int removed;        /* the links are removed */
};
#define FSN_EXPENSIVE_MIN 1024

static inline __attribute__((always_inline)) int place_is_expensive(
	unsigned long long hits, unsigned long long ended)
{
	return hits >= FSN_EXPENSIVE_MIN && hits > 2 * ended;
}

/*
 * Identifies an open call in one word: its slot (16 bits) and .nth of that slot (19). The
 * word of a thread also has the owner above them: self_exec_id of its process (7 bits),
 * which changes with each exec, and its thread id (22).
 */
#define FSN_OPEN_NTH_SHIFT  16
#define FSN_OPEN_SLOT_MASK  (FSN_SLOTS_MAX - 1)
#define FSN_OPEN_EXEC_SHIFT 35
#define FSN_OPEN_TID_SHIFT  42
#define FSN_OPEN_CALL_MASK  ((1ULL << FSN_OPEN_EXEC_SHIFT) - 1)
#define FSN_OPEN_EXEC_MASK  ((1ULL << FSN_OPEN_TID_SHIFT) - 1 - FSN_OPEN_CALL_MASK)

#define FSN_NEST_AGAIN 1U /* its function is also open outside of it */
#define FSN_NEST_TAKEN 2U /* its time is subtracted from the enclosing call */
/* it launches a GPU kernel: calls inside launch the same one */
#define FSN_NEST_LAUNCH 4U

/*
 * Run-queue latency of a thread, in units of 2^6 ns, truncated: differences up to 275 s
 * are exact.
 */
#define FSN_DELAY_SHIFT 6

/* Nesting of a call. Index: slot. Sums are over the calls made in it that have returned. */
struct fsn_nest {
	unsigned long long parent;    /* the enclosing call, or 0 */
	unsigned long long inner_ns;  /* time of inner calls */
	/* overhead of probes in this and inner calls, with latency lost there */
	unsigned long long probes_ns;
	unsigned int inner_lost;      /* part of .inner_delay that was lost in probes */
	unsigned int pad;             /* a cache line each */
	/* bit mask by function number % 32: functions open in it, itself included */
	unsigned int open;
	unsigned int nth;       /* incremented with each call in the slot */
	unsigned int flags;     /* FSN_NEST_... */
	unsigned int path;      /* the path under which it is counted */
	unsigned int under;     /* 1 + the path of the calls that it makes */
	unsigned int delay;     /* total run-queue latency of its thread at its start */
	unsigned int inner_delay; /* run-queue latency in inner calls */
	unsigned int preempted; /* total preemptions of its thread at its start */
};

/*
 * After the nests of the slots: the innermost open call of each thread, by truncated
 * thread id.
 */
#define FSN_THREADS      65536
#define FSN_THREADS_EACH (sizeof(struct fsn_nest) / sizeof(unsigned long long))

/*
 * Scheduler state of the calling thread at the start of a call, by slot. At the return,
 * the result.
 */
struct fsn_split {
	unsigned long long switches; /* number of context switches */
	unsigned long long start;    /* CPU's task clock when .ran was read */
	unsigned long long ran;      /* runtime */
	unsigned long long delay;    /* runnable without a CPU */
	unsigned long long behind;   /* lag of the CPU's task clock to its clock */
	unsigned int cpu;
	unsigned int known; /* it returned in that thread: these are valid */
	unsigned long long queued, blocked;
	/* The current sleep: start time or 0, .delay at its start, and its stack. */
	unsigned long long slept, slept_delay;
	unsigned int stack, pad;
};

/*
 * Call paths. A path is a function and the path of its caller. Its entry in fsn_paths is
 * its key: function + 1 (20 bits), and above it 1 + the caller's path, or 0. An entry is
 * claimed by compare-and-exchange and never freed. The last entry counts all paths
 * dropped because the table was full.
 *
 * A recursive call has a path of its own without children: its callees are under the path
 * of the outermost call. This limits the number of paths to those that contain each
 * function once.
 */
#define FSN_PATH_UNDER_SHIFT FSN_FN_BITS
#define FSN_PATH_PROBES      16
#define FSN_PATH_SHARDS      8 /* maximum */

/* Statistics of a path on one shard of the CPUs. Index: shard * path_cnt + path. */
struct fsn_path {
	unsigned long long self_ns; /* of calls that have returned; can be negative */
	unsigned long long calls;
};
