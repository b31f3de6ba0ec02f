/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Constants and types shared by the BPF programs, the library and the commands: counters,
 * how returns are traced, what is stored of a call. The layout of the maps is in
 * layout.h.
 */
#pragma once

/* --- what is counted of a function ---------------------------------------------------------- */

/*
 * Used in the BPF programs' maps, in the baselines of resets and in the statistics. The
 * maps' counters only grow. The members that every call writes come first.
 */
#define FSN_COUNTS(X)                                                           \
	X(total_ns)                                                             \
	X(inner_ns)    /* part of total_ns spent in calls made */               \
	X(recursed_ns) /* part of total_ns that another call of the function contains */ \
	X(errors)                                                               \
	X(slow)                                                                 \
	X(returns)     /* returns that matched a call */                        \
	X(sampled_out) /* not tracked: not the one of N */                      \
	X(calls)       /* entries */                                            \
	X(abandoned)   /* calls that cannot return any more */                  \
	X(no_slot)     /* not tracked: the table of slots was full */           \
	X(chained)     /* part of calls: tail-called by a traced function */     \
	X(jumped)      /* left through an untracked tail call */                \
	X(inner)       /* tail recursion from a call of the same function */    \
	X(unseen)      /* in progress when a link was replaced, or begun meanwhile */ \
	X(unmatched)   /* returns without their call; in no sum */              \
	X(revived)     /* abandoned, but returned later */                      \
	X(passed)      /* hits of probed jumps that ended no call; in no sum */ \
	X(aside)       /* entries that count no call: filtered out; in no sum */ \
	X(strays)      /* returns of calls that filters may have rejected; in no sum */ \
	X(led)         /* returns traced by another function's probe; in no sum */ \
	X(stepped)     /* single-stepped hits of jumps and targets; in no sum */ \
	X(on_cpu_ns)   /* part of total_ns, of calls for which it is known */   \
	X(queued_ns)   /* runnable, without a CPU */                            \
	X(blocked_ns)                                                           \
	X(probes_ns)   /* overhead of inner probes, with latency lost there; not in total_ns */ \
	X(waited_ns)   /* part of total_ns: run-queue latency of the function itself */ \
	X(entry_ns)    /* run time of entry programs, scaled from a sample of hits */ \
	X(entry_runs)  /* number of hits represented */                         \
	X(end_ns)      /* the same for exit programs */                         \
	X(end_runs)                                                             \
	X(walks_ns)    /* run time of all stack walks at exits: not in end_ns; of GPU records */

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

/*
 * What limits the accuracy of a group since its reset, or its stops. Counted in struct fsn_ctl, as
 * are the numbers at the resets.
 */
#define FSN_LOSSES(X)                                                                   \
	X(lost_codes)      /* failed calls: the table of codes was full */             \
	X(lost_processes)  /* calls: the table of processes was full */                \
	X(lost_texts)      /* keys that could not be read */                           \
	X(lost_conditions) /* calls that do not count: their text could not be read */ \
	X(lost_stacks)     /* the table of stacks was full */                          \
	X(lost_python)     /* frames that remain an interpreter's */                   \
	X(crowded)         /* of no_slot: its process had too many calls in progress */ \
	X(other_stack)     /* of no_slot: on another stack than the thread's own */    \
	X(too_deep)        /* of no_slot: below 64 return probes, the kernel's limit */ \
	X(pauses)          /* stops of processes that have continued, */               \
	X(paused_ns)       /* their sum, */                                            \
	X(paused_calls)    /* and calls of no_slot that started meanwhile */

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

/* --- how returns are traced --------------------------------------------------------- */

enum fsn_exit {
	FSN_EXIT_NONE,   /* only counted */
	FSN_EXIT_RETURN, /* return probe */
	FSN_EXIT_RET,    /* probes on its ret instructions */
	/* entry and exit are one instruction: both are counted, no times */
	FSN_EXIT_SAME,
	FSN_EXIT_EARLY,  /* as RET, but on an earlier instruction, which needs no single-step */
	/* as RETURN, but the kernel can miss some returns */
	FSN_EXIT_SOME,
	/*
	 * as RET, but calls are matched by goroutine: neither the call that one is made in
	 * is known, nor its CPU time
	 */
	FSN_EXIT_GOROUTINE,
	FSN_EXIT_CNT
};

enum fsn_judge {
	FSN_JUDGE_NONE,     /* the result does not indicate success */
	FSN_JUDGE_NONZERO,  /* 0 is success */
	FSN_JUDGE_NEGATIVE, /* negative is failure */
	FSN_JUDGE_NULL,     /* a null pointer is failure */
	FSN_JUDGE_ZERO,     /* 0 is failure */
	FSN_JUDGE_NOT_POSITIVE, /* 0 and negative are failure */
};

/* maximum number of results of a function that are not errors */
#define FSN_OK_CODES    4
/* ranges of one function; code in further ones counts as outside */
#define FSN_JUMP_RANGES 32

/* --- attach cookies: which function, and what kind of probe ----------------------------- */

#define FSN_FN_BITS 20 /* MAX_UPROBE_MULTI_CNT, the limit of one uprobe_multi link */
#define FSN_FN_MASK ((1ULL << FSN_FN_BITS) - 1)
/*
 * The function of a cookie, without the bit that distinguishes a link from its
 * replacement.
 */
#define FSN_COOKIE_TURN_SHIFT 19
#define FSN_COOKIE_FN_MASK    ((1ULL << FSN_COOKIE_TURN_SHIFT) - 1)
#define FSN_FN_MAX            ((1U << FSN_COOKIE_TURN_SHIFT) - 2)

enum fsn_kind {
	FSN_ENTRY,     /* tracked call, with a return probe */
	FSN_ENTRY_RET, /* tracked call, with probes on its ret instructions */
	FSN_COUNT,     /* untracked call, only counted */
	FSN_RETURN,    /* exit: a return probe */
	FSN_END,       /* exit: a ret instruction */
	FSN_END_JUMP,  /* exit: a tail call */
	FSN_END_JCC,   /* exit: a tail call, if the condition holds */
	FSN_END_REG,   /* exit: a tail call, if the target is outside the function */
	FSN_SAME,      /* untracked call whose entry is its exit */
	FSN_FORWARD,   /* tracked call whose entry is a tail call */
	/* entry of a tracked tail call's target that is not counted itself */
	FSN_ARRIVE,
	FSN_END_EARLY, /* exit: an instruction that always leads to a ret */
	FSN_END_EARLY_JCC, /* exit: the same, if the condition holds */
};

/*
 * A tracked tail call is followed to its target. The target's number is that of a
 * function of the group, or one from fn_cnt on for a target outside the group.
 */

/* Bits of the cookie above the function's number. */
#define FSN_COOKIE_KIND_SHIFT 20 /* 4 bits, enum fsn_kind */
#define FSN_COOKIE_COND_SHIFT 24 /* 6 bits: FSN_END_JCC, _EARLY_JCC, as in lib/code/plan.h */
#define FSN_COOKIE_REG_SHIFT  30 /* 5 bits: register that is tested or jumped through */
#define FSN_COOKIE_BIT_SHIFT  35 /* 6 bits: arm64 tbz/tbnz, the bit tested */
#define FSN_COOKIE_WIDE_SHIFT 41 /* 1 bit: arm64 cbz/cbnz of 64 bits */
#define FSN_COOKIE_STEP_SHIFT 41 /* 1 bit: x86-64, a jump that the kernel does not emulate */
/* FSN_ENTRY_RET, FSN_END: 1 bit: the call is matched by goroutine */
#define FSN_COOKIE_GO_SHIFT   24
/* 1 bit: index into fsn_jumps, whose .word decides whether the jump is tracked */
#define FSN_COOKIE_WORD_SHIFT 42
#define FSN_COOKIE_WAIT_SHIFT 43 /* 1 bit: the entry of the jump's target is probed */
/*
 * 20 bits. FSN_END_REG: index into fsn_jumps. Other jumps: 1 + number of the target, 0:
 * untracked. FSN_END, FSN_RETURN, FSN_ENTRY: 1 if this is the target of a tracked tail
 * call.
 */
#define FSN_COOKIE_MORE_SHIFT 44
#define FSN_JUMPS_MAX         65535
/*
 * Entries except FSN_ENTRY and FSN_FORWARD: offset of the return address above the stack
 * pointer, in words, in the 16 bits from FSN_COOKIE_PLACE_SHIFT.
 *
 * Early exits: the result is the number in the bits above FSN_COOKIE_REG_SHIFT, or the
 * low 64 >> CUT bits of the register there. The return address is at the same 16-bit
 * offset, above the stack pointer or, with FP, above the frame pointer.
 */
#define FSN_COOKIE_CUT_SHIFT    41 /* 2 bits */
#define FSN_COOKIE_NUMBER_SHIFT 43 /* 1 bit */
#define FSN_COOKIE_FP_SHIFT     44 /* 1 bit */
#define FSN_COOKIE_LED_SHIFT    45 /* 1 bit: this is the target of a tracked tail call */
#define FSN_COOKIE_STEPS_SHIFT  46 /* 1 bit: the kernel single-steps it */
#define FSN_COOKIE_PLACE_SHIFT  48 /* 16 bits, signed */

/*
 * System calls have no cookies. A table has an entry for each number, 32-bit calls after
 * the others: 1 + the function's number with the bits below, or 0. No table has numbers
 * from FSN_SYSCALLS on, such as those of x32.
 */
#define FSN_SYSCALLS      1024
#define FSN_SYSCALL_FN    FSN_FN_MASK
/* the child that it creates also returns from it, with 0 */
#define FSN_SYSCALL_CHILD (1U << 30)
#define FSN_SYSCALL_OTHER (1U << 31) /* it may return under the number of another call */
/* no call has this number: its entry is for the calls of futex(2) that wait */
#define FSN_FUTEX_WAIT    (FSN_SYSCALLS - 1)

/*
 * Events (USDT probes, tracepoints) describe the location of their arguments, which can
 * differ between the sites of one event. A set of such descriptions has a number; .more
 * of the cookie is 1 + that number.
 */
enum fsn_from {
	FSN_FROM_NOWHERE, /* the description is not understood */
	FSN_FROM_NUMBER,  /* the constant .offset */
	FSN_FROM_REG,     /* word .reg of the BPF program's context */
	FSN_FROM_MEMORY,  /* user memory at .reg + .offset + (.index << .shift) */
	FSN_FROM_RECORD,  /* the tracepoint's record, at .offset */
	FSN_FROM_TEXT,    /* the address of that offset in the record */
	/* the address at the distance stored there: from the start of the record, */
	FSN_FROM_LOC,
	FSN_FROM_REL_LOC, /* or from the end of the field */
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

/* --- overhead of probes ------------------------------------------------------------- */

/* The instruction at the entry probe: emulated or single-stepped by the kernel; or none. */
enum price_site { PRICE_EMULATED, PRICE_STEPPED, PRICE_SYSCALL, PRICE_SITES };
#define PRICE_INSNS PRICE_SYSCALL /* number of sites that are instructions */

enum price_end {
	PRICE_COUNT,  /* exit not traced */
	PRICE_RETURN, /* return probe, by any kind of link */
	PRICE_RET,    /* a probed ret */
	PRICE_JUMP,   /* a probed tail call */
	PRICE_EARLY,  /* a probed instruction that leads to a ret */
	PRICE_ENDS
};

/*
 * The BPF programs measure their run time on the first hits of a function on each shard,
 * and then on one hit in 1 << FSN_RUNS_BITS, which represents all of these.
 */
#define FSN_RUNS_FIRST 64
#define FSN_RUNS_BITS  6

/* Measured overhead of one kind of link. All in ns; at_ns is 0 when nothing is known. */
struct price {
	unsigned long long at_ns; /* CLOCK_REALTIME of the measurement */
	/*
	 * The part of the overhead between the two readings of the clock: inside the
	 * measured time.
	 */
	unsigned int overhead_ns[PRICE_SITES][PRICE_ENDS];
	/* The whole overhead of a call, traps included. */
	unsigned int whole_ns[PRICE_SITES][PRICE_ENDS];
	/* The overhead outside the measured time, in a sequence of such calls. */
	unsigned int rest_ns[PRICE_SITES][PRICE_ENDS];
	/*
	 * The part of whole_ns that the BPF programs measure as their run time; 0: not
	 * known.
	 */
	unsigned int run_ns[PRICE_SITES][PRICE_ENDS];
};

/* Uncertainty of the correction of one time: shorter times are mostly error. */
static inline unsigned int price_noise_ns(enum price_site site)
{
	return site == PRICE_STEPPED ? 3000 : 400;
}

/* How a function is limited whose overhead would exceed --overhead. */
enum limit {
	LIMIT_NONE,
	LIMIT_SAMPLED, /* one of N calls is timed */
	LIMIT_COUNTED, /* its calls are only counted */
	LIMIT_LEFT_OUT,
	LIMIT_CNT
};

/* --- what arguments and results are ---------------------------------------------------------- */

enum type_kind {
	TYPE_UNKNOWN, /* not declared: one word */
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
 * Location of an argument at the function's first instruction, in the calling convention
 * of this machine (System V x86-64, AAPCS64). A structure of up to 16 bytes uses as many
 * words as its size needs. BPF cannot read floating point registers: arguments passed
 * there are PLACE_NOWHERE.
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

/* Registers that hold the arguments of a function when its probe is hit. */
enum fsn_regs {
	FSN_REGS_C,
	/* code before the probe, or the compiler, may have changed them */
	FSN_REGS_UNKNOWN,
	FSN_REGS_GO,
};

/* Integer arguments that the calling convention passes in registers. */
#if defined(__TARGET_ARCH_arm64) || defined(__aarch64__)
#define FSN_ARGS 8
#else
#define FSN_ARGS 6
#endif

#define FSN_STACK_WORDS 20 /* of arguments after those in registers */
#define FSN_STRINGS     2  /* arguments whose text is saved, truncated */
#define FSN_STR_BYTES   96 /* for one text, or shared by two */
#define FSN_STR_WIDE    256 /* for each text, if paths of system calls are saved */
#define FSN_STR_STEP    (FSN_STR_WIDE + 8) /* with a zero byte */
#define FSN_COMM_LEN    16

struct fsn_args {
	unsigned long long arg[FSN_ARGS];
};

/* Arguments that an event may have; those after FSN_ARGS are not saved. */
#define FSN_EVENT_ARGS 11
/* The last one can instead hold the number of the thread's stack. */
#define FSN_EVENT_STACK (FSN_EVENT_ARGS - 1)

struct fsn_sources {
	struct fsn_source arg[FSN_EVENT_ARGS];
};

/*
 * Arguments after those in registers: words on the stack, and text that an argument
 * points to. Only in groups that have functions with such arguments.
 */
struct fsn_more {
	unsigned long long stack[FSN_STACK_WORDS];
	unsigned long long room; /* bytes of each text, with its zero byte */
	char str[FSN_STRINGS * FSN_STR_STEP];
};

/*
 * Bytes that groups without wide text save at the end of a struct that ends with struct
 * fsn_more.
 */
#define FSN_STR_SPARED (FSN_STRINGS * FSN_STR_STEP - FSN_STR_BYTES)
#define FSN_STR_NEXT(room) (((room) + 7) & ~7ULL) /* offset of the second text */

#define FSN_CALL_NO_RESULT 1U /* it left through a tail call */
#define FSN_CALL_NO_ARGS   2U /* it started before arguments were requested */
#define FSN_CALL_FAILED    4U
#define FSN_CALL_SLOW      8U
#define FSN_CALL_ENTRY     16U /* it has just started: no duration, no result */
/* it left through a tail call, or its entry is its return: no duration */
#define FSN_CALL_UNTIMED   32U
#define FSN_CALL_MORE      64U /* a struct fsn_more follows */
#define FSN_CALL_SPLIT     128U /* .queued and .blocked are known */

/* A call as the BPF programs write it. */
struct call {
	unsigned long long start;    /* CLOCK_MONOTONIC, ns */
	/* ns; of an untimed call until its tail call, or 0 */
	unsigned long long duration;
	unsigned long long queued;   /* part of .duration: runnable without a CPU */
	unsigned long long blocked;  /* part of .duration: asleep */
	/* the register; the result type says which bits are valid */
	unsigned long long result;
	struct fsn_args args;
	unsigned int fn, pid, tid, flags; /* FSN_CALL_... */
	char comm[FSN_COMM_LEN];          /* the thread's, ends with a zero byte */
};

/* --- how calls are grouped -------------------------------------------------------------------- */

#define FSN_KEYS     3  /* maximum number of keys */
#define FSN_SUMS     2  /* and sums */
#define FSN_KEY_TEXT 32 /* bytes of a text with its zero byte; the last byte is 1: "?" */
/* words of a key, if some key needs more than one */
#define FSN_KEY_WIDE (FSN_KEY_TEXT / 8)

enum fsn_by {
	FSN_BY_NONE,   /* the function has no such argument */
	FSN_BY_NUMBER, /* an argument */
	FSN_BY_TEXT,   /* text that an argument points to */
	FSN_BY_CALLER, /* the return address of the call */
	FSN_BY_THREAD,
	FSN_BY_COMM, /* the thread's command */
	FSN_BY_CGROUP,
	FSN_BY_RESULT, /* known at the return: the row is found then */
	FSN_BY_COMMUNICATOR, /* the NCCL communicator that an argument points to */
	/* of a sum: a number of elements times the size that another argument selects */
	FSN_BY_BYTES,
	FSN_BY_STACK,  /* 1 + number of the stack; 0: not known */
	FSN_BY_KERNEL, /* the GPU kernel launched, from an argument */
	FSN_BY_CLASS,  /* the power of two at or below an argument: key_class() */
	/* a number in memory that an argument or FSN_GO_G points to; the next word is 1: "?" */
	FSN_BY_MEMBER,
	/* of a sum: of arguments, or of words in memory that an argument points to */
	FSN_BY_PRODUCT,
	FSN_BY_POINTED, /* of a sum: the word that an argument points to when the call returns */
	FSN_BY_LOCK,   /* the lock at the address in an argument */
	/* command and number of the thread that ended the wait for the lock; known at the return */
	FSN_BY_WAKER,
	FSN_BY_WAKER_TID,
	FSN_BY_WAKER_STACK, /* and its stack at that moment, of a sleep as well; as FSN_BY_STACK */
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

/* Kinds of records of one map; places are also there without the others. */
enum { FSN_SEEN_PLACES, FSN_SEEN_CODES, FSN_SEEN_THREADS, FSN_SEEN_KINDS };
#define FSN_SEEN 4096

/*
 * The second word of a caller or a lock: a hash of its file and of the offset there. 0: not known, as
 * before Linux 5.17. The upper half of an inode number is another one on overlayfs.
 */
#define FSN_PLACE_NONE 2ULL /* no file, or mappings were being changed */
static inline __attribute__((always_inline)) unsigned long long place_word(
	unsigned int ino, unsigned long long mtime_ns, unsigned long long offset)
{
	unsigned long long word = (ino ^ mtime_ns) * 0x9e3779b97f4a7c15ULL;

	return ((word ^ word >> 32) + offset) * 0x9e3779b97f4a7c15ULL | 1;
}

/* Key of an NCCL communicator: its hash, or, with .ranks 0, the address of another argument. */
struct fsn_communicator {
	unsigned long long hash;
	int rank, ranks, device;
	unsigned int pad[3];
};
#define FSN_RANKS_MAX 1000000

/*
 * The keys of a call, in the same layout for all functions; a one-word key uses the first
 * word.
 */
struct fsn_key {
	unsigned long long word[FSN_KEYS * FSN_KEY_WIDE];
};

/* --- unwind tables ------------------------------------------------------------------ */

/*
 * How the caller's frame is found, for the range of a file's code from .offset to that of
 * the next row. CFA is the caller's stack pointer; the return address is the word below
 * it.
 */
enum fsn_unwind {
	FSN_UNWIND_NONE,   /* nothing is known of this code */
	FSN_UNWIND_SP,     /* CFA = stack pointer + 8 * cfa */
	FSN_UNWIND_FP,     /* CFA = frame pointer + 8 * cfa */
	/*
	 * CFA = word at frame pointer - 8 * cfa; the caller's frame pointer at frame
	 * pointer
	 */
	FSN_UNWIND_DEREF,
	FSN_UNWIND_SIGNAL, /* signal frame: the kernel has saved all registers there */
	FSN_UNWIND_END,    /* outermost: it has no caller */
	FSN_UNWIND_LOST,   /* its rule is not supported */
	FSN_UNWIND_HOW = 0x7f,
	/* the code is a Python interpreter: its calls have Python frames */
	FSN_UNWIND_PYTHON = 0x80,
};

struct fsn_unwind_row {
	unsigned int offset;
	unsigned char how; /* enum fsn_unwind, with FSN_UNWIND_PYTHON */
	/* the caller's frame pointer is at CFA + 8 * fp; 0: unchanged */
	signed char fp;
	unsigned short cfa;
};

/* A saved slow call. */
struct fsn_slow {
	unsigned long long seq; /* its number + 1; 0 while it is being written */
	struct call call;
	unsigned long long keyed; /* 1: grouped by .key */
	struct fsn_key key;
	struct fsn_more more; /* last, because it may be short */
};

#define FSN_FRAMES_MAX 127 /* of one stack; a power of two - 1 */

/* A frame: the number of a file and an offset in it, or 0 and an address. */
#define FSN_FRAME_SHIFT  48
#define FSN_FRAME_OFFSET ((1ULL << FSN_FRAME_SHIFT) - 1)

/* Why a walk ended. */
enum fsn_walk_end {
	FSN_WALK_OUTERMOST = 1, /* it has no caller */
	FSN_WALK_DEEP,          /* the frame limit was reached */
	FSN_WALK_BUSY,          /* the mappings were being changed */
	FSN_WALK_NOWHERE,       /* no code is mapped there */
	FSN_WALK_NO_TABLE,      /* in a file without an unwind table */
	FSN_WALK_NO_RULE,       /* in code without a rule, which keeps no frame pointer */
	FSN_WALK_NO_MEMORY,     /* the stack is not in memory */
	FSN_WALK_LOST,          /* the rule is not supported */
	FSN_WALK_NO_PAGE,       /* in a file without an unwind table, with a page not in memory */
	FSN_WALK_BAD_FRAMES,    /* in a file without an unwind table, whose .eh_frame is damaged */
	FSN_WALK_BOUND,         /* a row would have exceeded the cost limit of a walk */
	FSN_WALK_ENDS,
};

#define FSN_STREAM_PIDS 16 /* maximum number of processes that a stream selects */
