/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Words that the programs in the kernel, the library and the commands have in common: what is
 * counted, how calls end and are judged, how much is kept of one. They say nothing of the
 * maps' layout, so that all may see them.
 */
#ifndef FUNCSNOOP_SHARED_WORDS_H
#define FUNCSNOOP_SHARED_WORDS_H

/* --- what is counted of a function ---------------------------------------------------------- */

/*
 * The same in the programs' maps, in the baselines of resets and in the statistics that are
 * made of them. They only grow, but for the statistics' own. What a call writes stands first.
 */
#define FSN_COUNTS(X)                                                           \
	X(total_ns)                                                             \
	X(inner_ns)    /* of that what was spent in calls made */               \
	X(recursed_ns) /* of that what is in another call of the function, too */ \
	X(errors)                                                               \
	X(slow)                                                                 \
	X(returns)     /* ends that took their slot */                          \
	X(sampled_out) /* not followed: not the one of N */                     \
	X(calls)       /* entries */                                            \
	X(abandoned)   /* calls that cannot return any more */                  \
	X(no_slot)     /* not followed: the set of slots was full */            \
	X(chained)     /* of the calls: jumped to by one that is counted, too */ \
	X(jumped)      /* left through an untracked tail call */                \
	X(inner)       /* reached by a jump from a call of the same function */ \
	X(unmatched)   /* ends without their call; in no sum */                 \
	X(revived)     /* abandoned, but returned later */                      \
	X(passed)      /* hits of probed jumps that ended no call; in no sum */ \
	X(aside)       /* entries that count no call: filtered out; in no sum */ \
	X(strays)      /* ends without a call that say nothing of it; in no sum */ \
	X(led)         /* ends that another's probe has seen; in no sum */     \
	X(stepped)     /* hits that the kernel steps, of jumps and where they lead; in no sum */ \
	X(on_cpu_ns)   /* of total_ns, of calls for which that is known */      \
	X(queued_ns)   /* runnable, without a CPU */                            \
	X(blocked_ns)                                                           \
	X(probes_ns)   /* of probes inside, and lost in them: not in total_ns */ \
	X(waited_ns)   /* of total_ns, the function's own run-queue latency */ \
	X(entry_ns)    /* run time of entry programs, of a sample, times what each stands for */ \
	X(entry_runs)  /* hits that these stand for */                          \
	X(end_ns)      /* the same of programs at ends */                       \
	X(end_runs)                                                             \
	X(walks_ns)    /* run time of all stack walks at ends: not in end_ns */

struct fsn_counts {
#define X(name) unsigned long long name;
	FSN_COUNTS(X)
#undef X
};

/* The counters that are also kept per process, in its records and in their sums. */
#define FSN_PROC_COUNTS(X) \
	X(calls)           \
	X(returns)         \
	X(total_ns)        \
	X(inner_ns)        \
	X(probes_ns)       \
	X(errors)          \
	X(slow)            \
	X(on_cpu_ns)       \
	X(queued_ns)       \
	X(blocked_ns)

struct fsn_proc_counts {
#define X(name) unsigned long long name;
	FSN_PROC_COUNTS(X)
#undef X
	unsigned long long max_ns; /* of one call; the others are sums */
};

/* Memory that a function has allocated, and frees of unknown memory. */
#define FSN_MEMORY_COUNTS(X)                                                   \
	X(live_bytes)                                                          \
	X(live_blocks)                                                         \
	X(freed_bytes)                                                         \
	X(freed_blocks)                                                        \
	X(exit_bytes) /* live when their process exited, or called exec */     \
	X(exit_blocks)                                                         \
	X(lost_bytes) /* dropped because the table was full */                 \
	X(lost_blocks)                                                         \
	X(unknown_frees) /* of memory that no traced call allocated */

struct fsn_memory_counts {
#define X(name) unsigned long long name;
	FSN_MEMORY_COUNTS(X)
#undef X
};

/*
 * Log-linear buckets of durations, 8 to an octave: below 8 ns one for each nanosecond, then
 * [2^o + s * 2^(o-3), + 2^(o-3)) for octave o and step s.
 */
#define FSN_NS_BITS        48 /* 78 hours; longer calls read as that */
#define FSN_HIST_STEP_BITS 3
#define FSN_HIST_STEPS     (1 << FSN_HIST_STEP_BITS)
#define FSN_HIST_CNT       ((FSN_NS_BITS - FSN_HIST_STEP_BITS + 1) * FSN_HIST_STEPS)

/* --- how a call ends ------------------------------------------------------------------------ */

enum fsn_exit {
	FSN_EXIT_NONE,   /* only counted */
	FSN_EXIT_RETURN, /* a return probe sees the end */
	FSN_EXIT_RET,    /* probes on its ret instructions do */
	FSN_EXIT_SAME,   /* entry and end are one instruction: counted as both, no times */
	FSN_EXIT_EARLY,  /* as RET, but on an earlier instruction, which needs no single-step */
	FSN_EXIT_SOME,   /* as RETURN, but the kernel may not keep what it takes to see all */
	FSN_EXIT_CNT
};

enum fsn_judge {
	FSN_JUDGE_NONE,     /* the result says nothing of success */
	FSN_JUDGE_NONZERO,  /* 0 is success */
	FSN_JUDGE_NEGATIVE, /* negative is failure */
	FSN_JUDGE_NULL,     /* a null pointer is failure */
};

#define FSN_OK_CODES    4  /* at most N codes of a function are not errors */
#define FSN_JUMP_RANGES 32 /* parts of one function; what more there is counts as elsewhere */

/* --- attach cookies: which function, and what kind of probe ----------------------------- */

#define FSN_FN_BITS 20 /* as many as one uprobe_multi link takes (MAX_UPROBE_MULTI_CNT) */
#define FSN_FN_MASK ((1ULL << FSN_FN_BITS) - 1)
/* The function of a cookie, without the bit by which a link and its replacement differ. */
#define FSN_COOKIE_TURN_SHIFT 19
#define FSN_COOKIE_FN_MASK    ((1ULL << FSN_COOKIE_TURN_SHIFT) - 1)
#define FSN_FN_MAX            ((1U << FSN_COOKIE_TURN_SHIFT) - 2)

enum fsn_kind {
	FSN_ENTRY,     /* a call that is followed, its end seen by a return probe */
	FSN_ENTRY_RET, /* the same, its end seen by probes on its ret instructions */
	FSN_COUNT,     /* a call that is only counted */
	FSN_RETURN,    /* end, seen by a return probe */
	FSN_END,       /* end: a ret instruction */
	FSN_END_JUMP,  /* a tail call */
	FSN_END_JCC,   /* the same, when the condition holds */
	FSN_END_REG,   /* the same, when the target is outside the function */
	FSN_SAME,      /* a call that is only counted; its entry is its end */
	FSN_FORWARD,   /* a tracked call; its entry is a tail call */
	FSN_ARRIVE,    /* entry of a place that calls are followed to, and nothing else */
	FSN_END_EARLY, /* end: an instruction that leads to a ret and nothing else */
	FSN_END_EARLY_JCC, /* the same, when the condition holds */
};

/*
 * Calls that leave by a jump are followed to where that leads: a place, which is a function of
 * the group, by its number, or one that is not, by a number from fn_cnt on.
 */

/* Bits of the cookie above the function's number. */
#define FSN_COOKIE_KIND_SHIFT 20 /* 4 bits, enum fsn_kind */
#define FSN_COOKIE_COND_SHIFT 24 /* 6 bits: FSN_END_JCC, _EARLY_JCC, as in lib/code/plan.h */
#define FSN_COOKIE_REG_SHIFT  30 /* 5 bits: register that is tested or jumped through */
#define FSN_COOKIE_BIT_SHIFT  35 /* 6 bits: arm64 tbz/tbnz, the bit tested */
#define FSN_COOKIE_WIDE_SHIFT 41 /* 1 bit: arm64 cbz/cbnz of 64 bits */
#define FSN_COOKIE_STEP_SHIFT 41 /* 1 bit: x86-64, a jump that the kernel does not emulate */
#define FSN_COOKIE_WORD_SHIFT 42 /* 1 bit: index into fsn_jumps, whose .word says whether it is followed */
#define FSN_COOKIE_WAIT_SHIFT 43 /* 1 bit: the entry of the place that a jump leads to is probed */
/*
 * 20 bits. FSN_END_REG: index into fsn_jumps. Other jumps: 1 + number of the place, 0: not
 * followed. FSN_END, FSN_RETURN, FSN_ENTRY: 1 if calls are followed to here.
 */
#define FSN_COOKIE_MORE_SHIFT 44
#define FSN_JUMPS_MAX         65535
/*
 * Entries but FSN_ENTRY and FSN_FORWARD: how many words above the stack pointer the return address
 * lies, in 16 bits from FSN_COOKIE_PLACE_SHIFT on.
 *
 * Early ends: the result is a number, in the bits above, or the register above of which the
 * low 64 >> CUT bits count; the return address lies so many words above the stack pointer or,
 * with FP, above the frame pointer.
 */
#define FSN_COOKIE_CUT_SHIFT    41 /* 2 bits */
#define FSN_COOKIE_NUMBER_SHIFT 43 /* 1 bit */
#define FSN_COOKIE_FP_SHIFT     44 /* 1 bit */
#define FSN_COOKIE_LED_SHIFT    45 /* 1 bit: calls are followed to here */
#define FSN_COOKIE_PLACE_SHIFT  48 /* 16 bits, signed */

/*
 * System calls have no cookies: a table has for each number, those of 32-bit calls behind the
 * others, 1 + the function's number and what is known of its end, or 0. A number from
 * FSN_SYSCALLS on is in nobody's table (x32 has such).
 */
#define FSN_SYSCALLS      1024
#define FSN_SYSCALL_FN    FSN_FN_MASK
#define FSN_SYSCALL_CHILD (1U << 30) /* a child that it makes returns from it, too, with 0 */
#define FSN_SYSCALL_OTHER (1U << 31) /* it may end by the number of another call */

/*
 * Events (USDT probes, tracepoints) say themselves where their arguments are, in each place where
 * one is seen elsewhere: a place's arguments have a number, from which a cookie's .more is one up.
 */
enum fsn_from {
	FSN_FROM_NOWHERE, /* it is said in a way that is not understood */
	FSN_FROM_NUMBER,  /* .offset is it */
	FSN_FROM_REG,     /* word .reg of the program's context */
	FSN_FROM_MEMORY,  /* the process's, at .reg + .offset + (.index << .shift) */
	FSN_FROM_RECORD,  /* the tracepoint's record, at .offset */
	FSN_FROM_TEXT,    /* the address of that place of the record */
	FSN_FROM_LOC,     /* the address whose distance is there: from the record's begin, */
	FSN_FROM_REL_LOC, /* from the field's end */
};

#define FSN_SOURCES_MAX 65535
#define FSN_NO_REG      0xff

struct fsn_source {
	unsigned char from;  /* enum fsn_from */
	unsigned char size;  /* bytes: 1, 2, 4 or 8 */
	unsigned char reg;   /* FSN_NO_REG: none */
	unsigned char index; /* FSN_NO_REG: none */
	unsigned char shift; /* 0 to 3 */
	unsigned char is_signed;
	unsigned short pad;
	long long offset;
};

/* --- what its probes take ------------------------------------------------------------------- */

/* The instruction at the entry probe: emulated or single-stepped by the kernel; or none. */
enum price_site { PRICE_EMULATED, PRICE_STEPPED, PRICE_SYSCALL, PRICE_SITES };
#define PRICE_INSNS PRICE_SYSCALL /* number of sites that are instructions */

enum price_end {
	PRICE_COUNT,  /* not looked for */
	PRICE_RETURN, /* return probe, by any kind of link */
	PRICE_RET,    /* a probed ret */
	PRICE_JUMP,   /* a probed tail call */
	PRICE_EARLY,  /* a probed instruction that leads to a ret */
	PRICE_ENDS
};

/*
 * The programs measure their run time on the first hits of a function on each shard, and then on one
 * hit of 1 << FSN_RUNS_BITS, which stands for all of these.
 */
#define FSN_RUNS_FIRST 64
#define FSN_RUNS_BITS  6

/* Of one kind of link, as it was measured. All in ns; at_ns is 0 when nothing is known. */
struct price {
	unsigned long long at_ns; /* CLOCK_REALTIME of the measurement */
	/* Of the probes' own time what lies between the two readings of the clock. */
	unsigned int overhead_ns[PRICE_SITES][PRICE_ENDS];
	/* By how much a call takes longer, traps included. */
	unsigned int whole_ns[PRICE_SITES][PRICE_ENDS];
	/* By how much it takes longer than what was recorded of it, in a row of such calls. */
	unsigned int rest_ns[PRICE_SITES][PRICE_ENDS];
	/* The part of whole_ns that the programs measure as their run time; 0: not known. */
	unsigned int run_ns[PRICE_SITES][PRICE_ENDS];
};

/* The error of the correction of one time: shorter times are mostly error. */
static inline unsigned int price_noise_ns(enum price_site site)
{
	return site == PRICE_STEPPED ? 3000 : 400;
}

/* How a function is limited that would exceed the granted overhead. */
enum limit {
	LIMIT_NONE,
	LIMIT_SAMPLED, /* one of N calls is timed */
	LIMIT_COUNTED, /* its calls are counted, no more */
	LIMIT_LEFT_OUT,
	LIMIT_CNT
};

/* --- what arguments and results are ---------------------------------------------------------- */

enum type_kind {
	TYPE_UNKNOWN, /* nothing was declared: a word */
	TYPE_VOID,
	TYPE_INT, /* .size bytes, .is_signed; with .type and its codes an enum */
	TYPE_BOOL,
	TYPE_POINTER,
	TYPE_STRING,  /* pointer to text that ends with a zero byte */
	TYPE_FLOAT,   /* .size 4, 8 or 16 */
	TYPE_COMPLEX, /* float _Complex or double _Complex, .size 8 or 16 */
	TYPE_STRUCT,  /* by value, .size bytes */
	TYPE_CLASS,   /* C++ object that isn't trivial: by value means by its address */
};

/*
 * Where an argument lies when the function's first instruction runs, by the calling
 * convention of this machine (System V x86-64, AAPCS64). A structure of up to 16 bytes
 * takes as many words as it is long; what goes by floating point registers, which BPF
 * can't read, is PLACE_NOWHERE.
 */
enum type_place {
	PLACE_NOWHERE,
	PLACE_REG,   /* integer argument registers .index .. .index + .words - 1 (0 the
			 first: rdi or x0) */
	PLACE_STACK, /* 8-byte word .index of the arguments on the stack: at
			 sp + 8 * (1 + .index) on x86-64 (above the return address), at
			 sp + 8 * .index on arm64 */
	PLACE_EVENT,  /* argument .index of an event, */
	PLACE_RECORD, /* the same, and text is in the kernel's memory */
	PLACE_GO,     /* as PLACE_REG, of the registers in which Go passes arguments */
};

/* --- what is kept of a call ----------------------------------------------------------------- */

/* In which registers the arguments of a function are when its probe is hit. */
enum fsn_regs {
	FSN_REGS_C,
	FSN_REGS_UNKNOWN, /* code before the probe, or a compiler, may have changed that */
	FSN_REGS_GO,
};

/* Integer arguments that the calling convention passes in registers. */
#if defined(__TARGET_ARCH_arm64) || defined(__aarch64__)
#define FSN_ARGS 8
#else
#define FSN_ARGS 6
#endif

#define FSN_STACK_WORDS 20 /* of arguments beyond them */
#define FSN_STRINGS     2  /* arguments whose text is kept, cut */
#define FSN_STR_BYTES   96 /* one text has all the room, two share it; */
#define FSN_STR_WIDE    256 /* where paths of system calls are kept, each text has so many */
#define FSN_STR_STEP    (FSN_STR_WIDE + 8) /* and a zero byte */
#define FSN_COMM_LEN    16

struct fsn_args {
	unsigned long long arg[FSN_ARGS];
};

/* Arguments that an event may have; beyond FSN_ARGS they are only looked at. */
#define FSN_EVENT_ARGS 11
/* In the place of the last: the number of the stack, where that is the thread's. */
#define FSN_EVENT_STACK (FSN_EVENT_ARGS - 1)

struct fsn_sources {
	struct fsn_source arg[FSN_EVENT_ARGS];
};

/*
 * Arguments beyond the registers, of groups that have functions with some: words on the
 * stack, and text that an argument points to.
 */
struct fsn_more {
	unsigned long long stack[FSN_STACK_WORDS];
	unsigned long long room; /* of each text, with its zero byte */
	char str[FSN_STRINGS * FSN_STR_STEP];
};

/* Bytes by which the struct that ends with it is shorter in groups without wide text. */
#define FSN_STR_SPARED (FSN_STRINGS * FSN_STR_STEP - FSN_STR_BYTES)
#define FSN_STR_NEXT(room) (((room) + 7) & ~7ULL) /* where the second text begins */

#define FSN_CALL_NO_RESULT 1U /* it left through a tail call */
#define FSN_CALL_NO_ARGS   2U /* it began before arguments were requested */
#define FSN_CALL_FAILED    4U
#define FSN_CALL_SLOW      8U
#define FSN_CALL_ENTRY     16U /* it has just begun: no duration, no result */
/* it left through a tail call, or its entry is its return: no duration */
#define FSN_CALL_UNTIMED   32U
#define FSN_CALL_MORE      64U /* a struct fsn_more follows */
#define FSN_CALL_SPLIT     128U /* it is known how long it was queued and blocked */

/* A call as the programs write it, and all others read it. */
struct call {
	unsigned long long start;    /* CLOCK_MONOTONIC, ns; of an entry its time */
	unsigned long long duration; /* ns; of an untimed one until it left, or 0 */
	unsigned long long queued;   /* of that runnable without a CPU, */
	unsigned long long blocked;  /* and asleep */
	unsigned long long result;   /* the register: the function's type says what counts */
	struct fsn_args args;
	unsigned int fn, pid, tid, flags; /* FSN_CALL_... */
	char comm[FSN_COMM_LEN];          /* the thread's, ends with a zero byte */
};

/* --- how calls are grouped -------------------------------------------------------------------- */

#define FSN_KEYS     3  /* maximum number of keys */
#define FSN_SUMS     2  /* and sums */
#define FSN_KEY_TEXT 32 /* bytes of a text, a zero byte at its end; the last one is 1: "?" */
#define FSN_KEY_WIDE (FSN_KEY_TEXT / 8) /* words of a key, where some key is more than one */

enum fsn_by {
	FSN_BY_NONE,   /* the function has no such argument */
	FSN_BY_NUMBER, /* an argument; the others take none */
	FSN_BY_TEXT,   /* what an argument points to */
	FSN_BY_CALLER, /* the return address of the call */
	FSN_BY_THREAD,
	FSN_BY_COMM, /* the thread's command */
	FSN_BY_CGROUP,
	FSN_BY_RESULT, /* known at the end: the row is found then */
	FSN_BY_COMMUNICATOR, /* what an argument points to, of NCCL */
	FSN_BY_BYTES, /* of a sum: a count of elements, by the size that another argument tells */
	FSN_BY_STACK,  /* a number: 1 + its place among the stacks; 0: it is not known */
	FSN_BY_KERNEL, /* what an argument says of the GPU's kernel that is launched */
	FSN_BY_CLASS,  /* the power of two at or below an argument: key_class() */
	FSN_BY_MEMBER, /* a number in memory that an argument points to; the next word is 1: "?" */
	/* of a sum: of arguments, or of words in memory that an argument points to */
	FSN_BY_PRODUCT,
	FSN_BY_CNT
};

/* The class of a size, to keep keys few: 4096 for 4096 to 8191; 0 for 0. */
static inline __attribute__((always_inline)) unsigned long long key_class(unsigned long long n)
{
	n |= n >> 1;
	n |= n >> 2;
	n |= n >> 4;
	n |= n >> 8;
	n |= n >> 16;
	n |= n >> 32;
	return n - (n >> 1);
}

/* What a key by communicator is: NCCL's own, or, with .ranks 0, the address of what is none. */
struct fsn_communicator {
	unsigned long long hash;
	int rank, ranks, device;
	unsigned int pad[3];
};
#define FSN_RANKS_MAX 1000000

/* Words that all functions of a group have; of one that is a word, the first counts. */
struct fsn_key {
	unsigned long long word[FSN_KEYS * FSN_KEY_WIDE];
};

/* --- how a frame's caller is found ------------------------------------------------------------ */

/*
 * One for each range of a file's code, from .offset to that of the next. The return address is
 * the word below CFA, the stack pointer of the caller.
 */
enum fsn_unwind {
	FSN_UNWIND_NONE,   /* nothing is known of this code */
	FSN_UNWIND_SP,     /* CFA = stack pointer + 8 * cfa */
	FSN_UNWIND_FP,     /* CFA = frame pointer + 8 * cfa */
	FSN_UNWIND_DEREF,  /* CFA = word at frame pointer - 8 * cfa; its own at that pointer */
	FSN_UNWIND_SIGNAL, /* the kernel has put all registers there */
	FSN_UNWIND_END,    /* outermost: it has no caller */
	FSN_UNWIND_LOST,   /* it is said in a way that is not followed */
	FSN_UNWIND_HOW = 0x7f,
	FSN_UNWIND_PYTHON = 0x80, /* the code is an interpreter's: its calls have frames of Python */
};

struct fsn_unwind_row {
	unsigned int offset;
	unsigned char how; /* enum fsn_unwind, with FSN_UNWIND_PYTHON */
	signed char fp;    /* the caller's frame pointer is at CFA + 8 * fp; 0: it is as it was */
	unsigned short cfa;
};

/* A call that was slow, remembered. */
struct fsn_slow {
	unsigned long long seq; /* its number + 1; 0 while it is being written */
	struct call call;
	unsigned long long keyed; /* 1: by .key, as its row has it */
	struct fsn_key key;
	struct fsn_more more; /* the last: it may be short */
};

#define FSN_FRAMES_MAX 127 /* of one stack; one less than a power of two */

/* A frame: the number of a file and an offset in it; where there is none, 0 and an address. */
#define FSN_FRAME_SHIFT  48
#define FSN_FRAME_OFFSET ((1ULL << FSN_FRAME_SHIFT) - 1)

/* How a walk ended. */
enum fsn_walk_end {
	FSN_WALK_OUTERMOST = 1, /* it has no caller */
	FSN_WALK_DEEP,          /* the frame limit was reached */
	FSN_WALK_BUSY,          /* what is mapped was being changed */
	FSN_WALK_NOWHERE,       /* no code is mapped there */
	FSN_WALK_NO_TABLE,      /* in a file of which there is no table */
	FSN_WALK_NO_RULE,       /* in code of which nothing is known, and it keeps no frame pointer */
	FSN_WALK_NO_MEMORY,     /* the stack is not there */
	FSN_WALK_LOST,          /* it can't be followed there */
	FSN_WALK_NO_PAGE,       /* in a file without an unwind table, with a page not in memory */
	FSN_WALK_BAD_FRAMES,    /* in a file without an unwind table, whose .eh_frame is damaged */
	FSN_WALK_BOUND,         /* a row would have cost more than a walk may */
	FSN_WALK_ENDS,
};

#define FSN_STREAM_PIDS 16 /* maximum number of processes that a stream selects */

#endif
