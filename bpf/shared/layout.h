/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The layout of every pinned map, shared by the BPF programs and the commands. Raise FSN_LAYOUT for
 * a change that an older command would misread.
 */
#pragma once

#include "memory.h"
#include "progress.h"
#include "words.h"

#define FSN_LAYOUT 20

/* --- counters ------------------------------------------------------------------------------ */

/*
 * Counters of one function on one shard of the CPUs; they only grow. Index: shard * fn_cnt +
 * function. In .n, calls come after returns: a reader that copies upwards never sees more returns
 * than calls. Both are in one cache line.
 */
struct fsn_stat {
	struct fsn_counts n;
	/* the members below share one cache line */
	/*
	 * By epoch parity: the epoch (16 bits) above nanoseconds (48 bits), raised by an atomic
	 * maximum. The minimum stores the complement of the nanoseconds. 0: no value yet.
	 */
	unsigned long long max[2] __attribute__((aligned(64)));
	unsigned long long min[2];
	/* The same for a count: failed calls dropped because the table of codes was full. */
	unsigned long long unplaced[2];
	/* Used if the BPF programs limit the overhead (fsn_conf.shed_ns): */
	unsigned int looked; /* last check of the cost, CLOCK_MONOTONIC / 1,024 */
	unsigned int one_of; /* N: track one of N calls; 0: all */
	unsigned int last_row; /* 1 + the row of keys of the last call; 0: none yet */
	/* maximum overhead of probes inside one call, ever, in units of 2^FSN_DELAY_SHIFT ns */
	unsigned int most_probes;
} __attribute__((aligned(64)));

#define FSN_NS_MASK ((1ULL << FSN_NS_BITS) - 1)
#define FSN_EPOCH_MAX   0xffffU
#define FSN_EPOCH_FIRST 1U

/* Durations of one function on one shard of the CPUs. Index: shard * timed_cnt + function. */
struct fsn_hist {
	unsigned long long bucket[FSN_HIST_CNT];
};

/* Statistics of a function at the last reset, summed over all shards. */
struct fsn_base {
	struct fsn_counts n;
	unsigned long long carried; /* calls in flight at the reset */
};

/* --- per function, written by the command --------------------------------------------------- */

#define FSN_STR_STACK  128
#define FSN_STR_KERNEL 64 /* plus 1 + register: the text is in kernel memory */
#define FSN_GO_REG     16 /* plus 1 + number: an argument register of Go, */
#define FSN_GO_G       31 /* or the one with the address of the goroutine's struct runtime.g */
#define FSN_ZEROS      2
#define FSN_NO_SLOW   (~0ULL)

struct fsn_conf {
	unsigned long long
		slow_ns;         /* a call of at least this long is slow; FSN_NO_SLOW: never */
	unsigned char judge;     /* enum fsn_judge */
	unsigned char width;     /* bits of the result; the rest is undefined */
	unsigned char ok_cnt;    /* number of codes that are not errors */
	unsigned char streams;   /* mask of the streams that receive its calls */
	unsigned char stack_cnt; /* stack argument words that are saved */
	/* Arguments whose text is saved: 1 + register, FSN_STR_STACK + word; 0: none. */
	unsigned char str[FSN_STRINGS];
	unsigned char regs;       /* enum fsn_regs */
	/*
	 * Sizes, encoded like .str: if one is 0, the function frees and returns NULL without an
	 * error.
	 */
	unsigned char zero[FSN_ZEROS], zero_width[FSN_ZEROS]; /* bits */
	unsigned int overhead_ns; /* probe overhead inside each measured time */
	unsigned int noise_ns;    /* shorter times are within the error of the correction */
	unsigned int rest_ns;     /* overhead outside the measured time, of a call that returns */
	unsigned int left_ns;     /* overhead of a call that leaves through a tail call */
	unsigned int entry_ns;    /* overhead of the entry probe alone */
	unsigned int end_ns;      /* overhead of an unmatched return */
	unsigned int passed_ns;   /* overhead of a jump that stays in the function */
	unsigned int sample;      /* N: track one of N calls; 0: all */
	/* cost per call that the BPF programs use to limit overhead; 0: no limit */
	unsigned int shed_ns;
	long long ok[FSN_OK_CODES];
};

/*
 * An indirect jump: the ranges [lo, hi) of its function's code, relative to the jump.
 *
 * A jump through a word filled by the dynamic linker: .word is the location of that word and
 * .target the address it holds if the jump is tracked, both relative to the jump. .to is the part
 * of the cookie from FSN_COOKIE_WAIT_SHIFT for that case.
 *
 * A jump to another file: .word is 0, .to has FSN_JUMP_BEHIND. .hi has the probed instructions after
 * calls of the function, relative to the jump; unused ones are 0.
 */
#define FSN_JUMP_BEHIND (1ULL << 33)

struct fsn_jump {
	union {
		long long lo[FSN_JUMP_RANGES];
		struct {
			long long word, target;
			unsigned long long to;
		};
	};
	long long hi[FSN_JUMP_RANGES];
};

/* --- conditions on arguments ---------------------------------------------------------------- */

#define FSN_COND_TERMS 4
#define FSN_COND_TEXT  32 /* with a zero byte */

/* Accepted results of comparing the value with that of the term. */
#define FSN_BELOW 1U
#define FSN_EQUAL 2U
#define FSN_ABOVE 4U

struct fsn_term {
	unsigned char how;       /* mask of the above */
	unsigned char where;     /* 1 + register, FSN_STR_STACK + word, as in fsn_conf.str */
	unsigned char width;     /* bits of the argument; 0: it points to text */
	unsigned char is_signed; /* as is value[0] */
	unsigned int pad;
	unsigned long long value[FSN_COND_TEXT / 8]; /* a number, or text up to zero bytes */
};

/*
 * Condition on the calls of a function. Each function has two: the second half of the array follows
 * the first. A command writes one half while the BPF programs read the other; ctl.on selects it.
 */
struct fsn_cond {
	unsigned int term_cnt;
	unsigned int never; /* some argument is missing: none of its calls counts */
	struct fsn_term term[FSN_COND_TERMS];
};

/* --- processes ----------------------------------------------------------------------------- */

/*
 * Statistics of one function in one process on one shard of the CPUs. Key: function + 1 (20 bits),
 * process (22), shard (4), epoch (16), and a bit while it is being written.
 *
 * After the records come two rows per function that only commands access: sums of exited processes
 * whose records were evicted. The last bit of ctl.fold selects the row that counts. Records marked
 * with that bit no longer count, because the row includes them (lib/stats/detail.c). A row has no
 * process, and the epoch of the baseline.
 */
#define FSN_PROC_TGID_SHIFT  20
#define FSN_PROC_SHARD_SHIFT 42
#define FSN_PROC_EPOCH_SHIFT 46
#define FSN_PROC_SHARDS      4
#define FSN_PROC_SHARD_MASK  (0xfULL << FSN_PROC_SHARD_SHIFT)
#define FSN_PROC_LOCKED      (1ULL << 62)
#define FSN_PROC_FOLDED      (1ULL << 63)
#define FSN_PROC_MARK(fold)  (FSN_PROC_FOLDED | ((fold)&1ULL) << 62)
#define FSN_PROC_PROBES      16

struct fsn_proc {
	unsigned long long key;
	unsigned long long start; /* of the process: CLOCK_BOOTTIME, ns */
	struct fsn_proc_counts n;
	char comm[FSN_COMM_LEN];
	unsigned long long cgroup; /* cgroup v2, at the first call of the process */
};

/* --- keys ----------------------------------------------------------------------------------- */

/* Source of one part of a key, or of a sum. */
struct fsn_part {
	unsigned char what;      /* enum fsn_by */
	unsigned char where;     /* as in struct fsn_term */
	unsigned char width;     /* bits of a number */
	unsigned char is_signed;
	unsigned int arg; /* 1 + its number among the function's arguments; 0: not an argument */
	/*
	 * FSN_BY_STACK: 1 if the probe is inside a function. Otherwise an offset from the pointer:
	 * FSN_BY_COMMUNICATOR: of its hash; FSN_BY_MEMBER: of the member;
	 * FSN_BY_KERNEL: 1 if it is not a kernel, but the thread's innermost NVTX range;
	 * FSN_BY_PRODUCT: 1 if the factors are there, 0 if they are arguments; FSN_BY_BYTES: of the
	 * size of an element, from the argument at .type; 0: .sizes has it.
	 */
	unsigned int at;
	/*
	 * FSN_BY_BYTES: the argument that selects from .sizes, encoded like .where; FSN_BY_MEMBER:
	 * 1: an address; FSN_BY_PRODUCT: two places of 16 bits: 1 + where words are that must be 0,
	 * or 0.
	 */
	unsigned int type;
	/*
	 * FSN_BY_BYTES: 4 bits per value: 1 + the power of two. FSN_BY_PRODUCT: up to four factors
	 * of 16 bits: encoded like .where, or 1 + the distance after .where's address; 0: none.
	 */
	unsigned long long sizes;
};
#define FSN_FACTORS 4
#define FSN_ABSENTS 2

/* How a function that stores a kernel's handle identifies the kernel. */
enum fsn_named {
	FSN_NAMED_NOT,  /* it stores no handle */
	FSN_NAMED_TEXT, /* by name */
	FSN_NAMED_WORD, /* by another handle, or by the host function */
};

/* How the calls of a function are grouped. */
struct fsn_keyed {
	unsigned int on; /* 0: not grouped, because it has none of the arguments */
	unsigned int late; /* one part is known when the call returns */
	unsigned char launches; /* one part is FSN_BY_KERNEL */
	unsigned char named;    /* enum fsn_named, by the argument at .name_at */
	/* as in struct fsn_term; .handle_at is where the handle is stored */
	unsigned char name_at, handle_at;
	unsigned int pad;
	/* Names of the values of each part: first index in fsn_names, and count. */
	unsigned int names[FSN_KEYS], name_cnt[FSN_KEYS];
	struct fsn_part key[FSN_KEYS];
	struct fsn_part sum[FSN_SUMS];
};

/*
 * Statistics of one function in one process for one key. The key is in fsn_keys at the same index,
 * readable only by the owner. Tag: function + 1 (20 bits), process (22), and the bits of a
 * process's record for rows that are being written or evicted. The counters only grow; each reset
 * saves their values.
 *
 * After the rows comes one row per function for calls dropped because the table was full. Then come
 * two rows per function that only commands access: processes that exited since the baseline, as in
 * fsn_procs. Their tag is the key of a process.
 */
#define FSN_ROW_PROBES 32
#define FSN_ROWS       16384   /* default */
#define FSN_ROWS_MAX   (1U << 20)
#define FSN_NO_ROW     (~0U)
#define FSN_ROW_LATE   (~0U - 1) /* the row is found when the call returns */

struct fsn_row {
	unsigned long long tag;
	unsigned long long start; /* of the process: CLOCK_BOOTTIME, ns */
	unsigned long long returns;
	unsigned long long total_ns;
	unsigned long long errors;
	unsigned long long slow;
	unsigned long long on_cpu_ns, queued_ns, blocked_ns; /* as in FSN_COUNTS */
	unsigned long long exit_bytes, exit_blocks; /* as in FSN_MEMORY_COUNTS */
	unsigned long long max[2]; /* as in struct fsn_stat */
	unsigned long long calls;  /* read last */
	unsigned long long sum[FSN_SUMS];
	char comm[FSN_COMM_LEN];
	/* The public part of the key: 1 + a name in fsn_names, or 0. */
	unsigned int named[FSN_KEYS];
	unsigned int nth; /* rank among all claimed rows */
};

/* Call site of the row at the same index, once a command has resolved it. */
#define FSN_CALLER_LEN 112
struct fsn_caller {
	unsigned long long addr;  /* as in the key; 0: not known */
	unsigned long long start; /* of the process */
	char text[FSN_CALLER_LEN];
};

/*
 * A file as identified by the kernel; stat(2) can differ. .version distinguishes it from earlier
 * files with the same inode number and from its own earlier contents. Only the BPF programs create
 * it. All members are 0 for the vdso, which has no file.
 */
struct fsn_file_id {
	unsigned int dev, version;
	unsigned long long ino;
};

/* File and .offset of the calling code, recorded when the row is claimed. */
struct fsn_called {
	struct fsn_file_id id;
	unsigned long long offset;
	unsigned long long start;
	unsigned long long addr; /* as in the key; 0: not known */
};

/*
 * The last frame of a walk that stopped at a file without an unwind table. This value replaces the
 * file's number; a hash of the kernel's identification and the offset in the file follow. The file
 * gets an unwind table once a command builds one.
 */
#define FSN_FRAME_MET       0xfffdULL
#define FSN_MET_SHIFT       32
#define FSN_MET_OFFSET      ((1ULL << FSN_MET_SHIFT) - 1)

static inline __attribute__((always_inline)) unsigned long long met_frame(
	const struct fsn_file_id *id, unsigned long long offset)
{
	unsigned long long hash = id->ino ^ ((unsigned long long)id->dev << 32 | id->version);

	return FSN_FRAME_MET << FSN_FRAME_SHIFT |
		hash * 0x9e3779b97f4a7c15ULL >> 48 << FSN_MET_SHIFT | offset;
}

/* Path of a file: its name, the name of its directory, and so on to the root of its file system. */
#define FSN_NAME_PARTS 16
#define FSN_NAME_PART  64
#define FSN_NAMED_FILES 1024
struct fsn_file_name {
	unsigned long long cnt; /* 0: incomplete */
	char part[FSN_NAME_PARTS][FSN_NAME_PART];
};

/* Launching function of the row at the same index, its caller, and the caller's caller; or 0. */
struct fsn_launch {
	unsigned long long word; /* as in the key */
	unsigned long long from[2];
};

/* Name of its kernel, once a command has resolved it. */
#define FSN_KERNEL_LEN 240
struct fsn_kernel {
	unsigned long long word;  /* as in the key; 0: not known */
	unsigned long long start; /* of the process */
	char text[FSN_KERNEL_LEN];
};

/*
 * A kernel's handle in a process and how it was requested: by name, or by another word (name
 * empty).
 */
#define FSN_HANDLES  4096
#define FSN_RANGES_WORD 0 /* no handle: in .word of its record are the ranges of threads */
#define FSN_HANDLE_NAME 488
struct fsn_handle {
	unsigned long long word;
	unsigned long long tgid;
};
struct fsn_handle_of {
	unsigned long long start; /* of the process; 0: being written */
	unsigned long long word;
	unsigned long long cut; /* 1: the name is truncated */
	char name[FSN_HANDLE_NAME];
};

/* Identifies the function and the process of a row; never 0. */
static inline __attribute__((always_inline)) unsigned long long row_tag(
	unsigned int fn, unsigned int tgid)
{
	return (fn + 1) | (unsigned long long)tgid << FSN_PROC_TGID_SHIFT;
}

/* --- stacks ---------------------------------------------------------------------------------- */

#define FSN_STACKS       16384 /* different ones */
/* Tables of any size, filled through mmap(): BPF_F_INNER_MAP, BPF_F_MMAPABLE. */
#define FSN_TABLE_FLAGS ((1U << 12) | (1U << 10))
#define FSN_STACK_PROBES 16
#define FSN_STACK_PIECES 2 /* of frames, for each on an average */
#define FSN_WALKS_CPU    4 /* walks at once, for each processor */
#define FSN_FILES_MAX    1024 /* numbers of files: from 1 on */
#define FSN_RULES        16384 /* addresses of which it is kept what holds there */
#define FSN_CFI_ROWS     65536 /* rows made of files without an unwind table; a power of two, */
#define FSN_CFI_FILES    1024  /* and what is known of those files */
#define FSN_COLD         1024  /* walks that are to be repeated; a power of two, */
#define FSN_COLD_LEFT    8     /* and those that programs just find */
/* Helpers that lib/kernel/trace.c replaces by kernel functions. */
#define FSN_TASK_WORK   0x7ffffff0
#define FSN_RDONLY_CAST 0x7ffffff1

/* A recorded stack; claimed by its hash, never freed. */
struct fsn_stack {
	unsigned long long hash;
	unsigned int first; /* its first piece in fsn_frames */
	unsigned int cnt;   /* number of frames; 0 while being written, or if fsn_frames is full */
	unsigned int end;   /* enum fsn_walk_end */
	unsigned int instead; /* number of the stack that a later walk found instead; 0: none */
};

/* A walk to be repeated. Only the BPF programs use it. */
struct fsn_work {
	unsigned long long work; /* struct bpf_task_work of the kernel */
	unsigned int cold, pad;  /* 1 + a piece of fsn_frames; 0: free */
};

#define FSN_FRAMES_PIECE 16
struct fsn_frames {
	unsigned long long frame[FSN_FRAMES_PIECE]; /* innermost first */
};

struct fsn_file_ref {
	unsigned int file; /* its number; 0: it has no table yet, */
	unsigned int pid;  /* and a process that maps it, */
	unsigned long long at; /* there */
	unsigned int unread; /* its pages could not be read */
	unsigned int pad;
};

/* One mapping in the answer about the requesting command's own files. */
struct fsn_mapped {
	unsigned long long start;
	struct fsn_file_id id;
};

/* Where a thread is that sleeps, and where calls return to that have return probes. */
#define FSN_RETURNS_MAX 16
#define FSN_SLEPT_LESS  1ULL
struct fsn_thread {
	unsigned int pid, tid;
	unsigned long long switches; /* how often it was switched out */
	/* since then; 0: not known, FSN_SLEPT_LESS: less than the command has had its CPU */
	unsigned long long slept_ns;
	unsigned long long pc, sp, fp;
	unsigned long long trampoline; /* 0: there is none */
	unsigned long long place[FSN_RETURNS_MAX], to[FSN_RETURNS_MAX]; /* innermost first; 0: no more */
};

/* A file that has an unwind table, as stat(2) reports it; for display. */
struct fsn_stack_file {
	unsigned long long dev, ino, size, mtime_ns;
	unsigned int rows, pad;
	char path[216];
};

/* --- return codes, slow calls --------------------------------------------------------------- */

struct fsn_code {
	unsigned int fn;
	unsigned int epoch;
	long long code;
};

#define FSN_CODE_CNT 8192

/* Where calls slept, of functions by process and stack: how often, and how long. */
struct fsn_sleep_at {
	unsigned int fn, epoch, tgid, stack;
};

struct fsn_slept {
	unsigned long long sleeps, ns;
};

#define FSN_SLEEP_CNT 16384

/* How times of a row are spread: how many were in a bucket of struct fsn_hist. */
struct fsn_spread_at {
	unsigned int row; /* .nth of it; of a function's others, which have none, ~function */
	unsigned int bucket, epoch;
};

#define FSN_SPREADS 65536

#define FSN_SLOW_CNT 1024 /* struct fsn_slow */

/* --- streams --------------------------------------------------------------------------------- */

/*
 * A command that receives calls as they happen claims an entry in fsn_streams, puts its
 * ring buffer at the same index of fsn_rings, sets its bit in .streams of the selected
 * functions, and then its bit in ctl.streams. It renews the lease; the first call after
 * the lease has expired clears the bit in ctl.
 */
#define FSN_STREAMS_MAX 8 /* as many as struct fsn_conf has bits for */

#define FSN_STREAM_ENDS    1U /* records of finished calls */
#define FSN_STREAM_ENTRIES 2U /* records of entries */
#define FSN_STREAM_SLOW    4U /* only slow calls */
#define FSN_STREAM_FAILED  8U /* only failed ones */

struct fsn_stream {
	unsigned long long lease_ns; /* CLOCK_MONOTONIC; 0: the place is free */
	unsigned long long min_ns;   /* only calls at least as long */
	unsigned long long lost;     /* records dropped because the buffer was full, and calls whose end was unseen */
	unsigned long long passed;   /* records that passed the filters above .sample */
	unsigned int flags;
	unsigned int sample; /* N: one of N records; 0: all */
	unsigned int tag;    /* goes into each record */
	unsigned int pid_cnt;
	unsigned int pid[FSN_STREAM_PIDS]; /* only these processes, if there are any */
};

struct fsn_event {
	struct call call;
	unsigned int tag;
	unsigned int lost; /* copy of the stream's .lost, truncated */
	unsigned int row;  /* the row of keys; out of range if it is not known */
	/* ns until this was sent, from the end that .call says; 0 for GPU activity and untimed calls */
	unsigned int late;
};

/* --- processes that died ---------------------------------------------------------------------- */

#define FSN_CRASHES      16 /* the last ones */
#define FSN_CRASH_CALLS  16 /* innermost ones */
#define FSN_CRASH_WORDS  2048
#define FSN_CRASH_MAPS   48
#define FSN_CRASH_FILES  64 /* whose names are kept */

#define FSN_CRASH_NO_FN (~0U) /* the call ended while it was copied, or by execve() */

#define FSN_CRASH_HAS_ADDR 1U
#define FSN_CRASH_OOM      2U /* the OOM killer has chosen it */
#define FSN_CRASH_PENDING  4U /* why it died is known when its last thread has exited */

struct fsn_crash_call {
	unsigned long long start; /* CLOCK_MONOTONIC, ns */
	unsigned long long age_ns;
	unsigned long long where; /* as in its slot */
	struct fsn_args args;
	unsigned int fn, tid;
	unsigned int has_args, has_more; /* mask of FSN_HAS_...; its arguments in fsn_crash_more */
};

/* A mapping that a word of the stack points to; .id is 0 unless it is a file's code. */
struct fsn_crash_map {
	unsigned long long start, end, offset;
	struct fsn_file_id id;
};

/*
 * A process that was ended by a signal or by an exit status other than 0. Its stack is copied as it
 * is, together with the mappings of the code that it may refer to: a command that knows unwind
 * tables makes frames of it.
 */
struct fsn_crash {
	unsigned long long seq;     /* its number + 1; 0 while it is being written */
	unsigned long long time_ns; /* CLOCK_MONOTONIC */
	unsigned long long start;   /* of the process: CLOCK_BOOTTIME, ns */
	unsigned long long addr;    /* whose access has failed */
	unsigned int signal;        /* 0: it has exited with .status */
	unsigned int status;
	unsigned int flags;         /* FSN_CRASH_... */
	unsigned int call_cnt;      /* calls in progress, more than FSN_CRASH_CALLS perhaps */
	unsigned int map_cnt, word_cnt;
	char comm[FSN_COMM_LEN];    /* of the thread */
	struct fsn_thread at;       /* the thread that took the signal or exited */
	struct fsn_crash_call call[FSN_CRASH_CALLS];
	struct fsn_crash_map map[FSN_CRASH_MAPS];
	unsigned long long stack_at, stack_start; /* address of .stack[0]; of the mapping */
	unsigned long long stack[FSN_CRASH_WORDS];
};

/* --- the switches --------------------------------------------------------------------------- */

/*
 * In .bss, pinned as "ctl". A reset opens an epoch, waits, reads, writes the idle baseline
 * and then switches to it with one store to .base: killed at any moment, it changed nothing.
 */
#define FSN_ON            1U
#define FSN_FILTER_PID    2U /* only what fsn_pids has; and so on */
#define FSN_FILTER_COMM   4U
#define FSN_FILTER_CPU    8U
#define FSN_FILTER_CGROUP 16U
#define FSN_FILTER_UID    32U
#define FSN_FILTER_TID    64U
#define FSN_FILTER_UNTIL  128U /* only before ctl.until_ns */
#define FSN_FILTER_IF     256U /* only calls for which fsn_conds holds */
#define FSN_FILTER_IF2    512U /* that is, its second half */

#define FSN_SAVE_SLOW      1U /* some function remembers slow calls */
#define FSN_SAVE_STREAM(i) (256U << (i))

#define FSN_PIDS_MAX    1024
#define FSN_CHILD_PIDS_MAX 32768 /* where children are followed */
/* not a process: its value is the number of children dropped because the table was full */
#define FSN_PID_NONE    0U
#define FSN_COMMS_MAX   64
#define FSN_CPUS_MAX    4096
#define FSN_CGROUPS_MAX 8
#define FSN_UIDS_MAX    64
#define FSN_TIDS_MAX    1024

struct fsn_comm {
	char comm[FSN_COMM_LEN]; /* of the thread, as in /proc/PID/task/TID/comm */
};

/* A power of two: bits by the start time of processes that have called. */
#define FSN_CALLED 16384

struct fsn_ctl {
	unsigned int on;        /* FSN_ON once probes count, and FSN_FILTER_... */
	unsigned int save_args; /* who needs arguments: FSN_SAVE_... */
	unsigned int epoch;   /* that programs write minimum, maximum, processes under */
	unsigned int streams; /* mask of the streams that run */
	/* Start values for readers: first epoch (16 bits), baseline in use (bit 16). */
	unsigned int base;
	unsigned int fold; /* how often records of ended processes were folded */
	unsigned int crowd_pid; /* the last process that had too many places */
	unsigned int over; /* whether until_ns had passed at .over_jiffy */
	unsigned int only_pid; /* 0, or the process whose calls alone were ever to count */
	unsigned int held; /* process that waits in a system call to be run, until that is over */
	unsigned int frames; /* pieces of fsn_frames that are used */
	unsigned int rows;   /* of keys, that were ever claimed */
	unsigned int met;    /* files without an unwind table that walks have met */
	unsigned int pausing;  /* threads that are stopped by a hold */
	unsigned int cpus_off; /* how often a CPU that is sampled was switched off */
	unsigned int cpu_going; /* 1 + the one that goes: it has many steps, and goes alone */
	/*
	 * The number of the handover, while links are attached next to those that replace them;
	 * otherwise 0. .turns keeps it. Cookies of the new links have its last bit.
	 */
	unsigned int turn;
#define X(name) unsigned long long name, name##_base[2];
	FSN_LOSSES(X)
#undef X
	unsigned long long since_ns[2]; /* CLOCK_REALTIME, of each baseline */
	unsigned long long slow_head;   /* slow calls ever */
	unsigned long long slow_base[2];
	unsigned long long called[FSN_CALLED / 64];
	unsigned int python_pieces; /* pieces of fsn_python_lines in use */
	unsigned int gpu_calls; /* launches of GPU kernels, ever: index of the next one */
	/* durations of rows dropped because the table was full, ever */
	unsigned long long lost_spreads;
	/*
	 * Expiry of the group, CLOCK_MONOTONIC: the BPF programs then stop counting, and
	 * any command with write access removes the group. A command that needs it longer
	 * postpones the expiry.
	 */
	unsigned long long until_ns;
	/*
	 * End of the last handover, CLOCK_MONOTONIC; 0: there was none. Calls that started before
	 * are not timed: threads wait while the kernel replaces code. During a handover, when it
	 * must have ended, so that times come back if the helper process is killed.
	 */
	unsigned long long replaced_ns;
	unsigned long long over_jiffy;
	/* CLOCK_MONOTONIC - clock of the run queues, measured in .ahead_jiffy */
	unsigned long long ahead_ns, ahead_jiffy;
	unsigned long long grown_bytes; /* memory of the SPARSE maps, written by commands */
	unsigned long long crashes; /* processes in fsn_crashes, ever */
	unsigned int turns;
	/* how often commands have built tables for files that walks have met */
	unsigned int tables;
	/*
	 * Walks to be repeated that are not yet assigned to a thread: its number, and a
	 * piece of fsn_frames.
	 */
	unsigned long long cold[FSN_COLD_LEFT];
	/* stacks that have or await a replacement in .instead */
	unsigned int cold_stacks;
	unsigned int pad;
};

#define FSN_MARKS 4096 /* of threads */

#define FSN_BASE_EPOCH(b) ((b)&FSN_EPOCH_MAX)
#define FSN_BASE_INDEX(b) ((b) >> 16 & 1)

/* --- stopped processes --------------------------------------------------------------------------- */

/*
 * Processes of a group that waits for libraries: what each had mapped at the last check,
 * and since when it is stopped until a command checks it again. It is stopped by SIGSTOP,
 * so a command that lets it continue first clears .since_ns and then sends SIGCONT.
 */
#define FSN_HOLDS_MAX 4096
struct fsn_hold {
	unsigned long long since_ns; /* CLOCK_MONOTONIC; 0: not stopped */
	unsigned long long pages;    /* of code */
	unsigned long long exec_id;  /* incremented with each exec */
	unsigned int lost;           /* stops that others have cancelled; of PID 0: of all processes */
	unsigned int stopping;       /* the signal may be sent before .since_ns is written */
};

/* Sender of the last signal that stopped a process. */
enum fsn_stopper {
	FSN_STOPPER_NONE,
	FSN_STOPPER_HOLD,     /* a BPF program that stops it for a hold, of any group */
	FSN_STOPPER_FOLLOWED, /* one of the group's processes; it may be itself */
	FSN_STOPPER_OTHER,    /* another process, which is responsible for continuing it */
};

/*
 * State of a stopped thread; the entry of its first thread also has that of the process.
 * fsn_pauses saves .total_ns at the start of each call: its growth is subtracted from the
 * call's time.
 */
struct fsn_stop {
	unsigned long long at_ns; /* of the process, when that signal was sent */
	unsigned long long at_delay_ns; /* total run-queue latency of its receiver then */
	unsigned int by;          /* enum fsn_stopper */
	unsigned int pad;
	unsigned long long since_ns; /* of the thread: it is stopped since; 0: it is not */
	unsigned long long since_delay_ns; /* its total run-queue latency then */
	unsigned long long until_ns; /* when it last continued */
	unsigned long long total_ns, delay_ns; /* .delay_ns: the part after SIGCONT, runnable */
};
