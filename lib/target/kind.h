/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Kinds of targets and their operations. A kind has a file in this directory, a BPF program in bpf/
 * if it needs one, and a row in target_kinds[].
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "find/find.h"
#include "kernel/kernel.h"
#include "proc/proc.h"

/* --- the probes of a draft, as lists for one link or one kind of link ----------------------- */

/* BPF programs that probes run. */
enum engine_prog {
	ENGINE_END,     /* on ret instructions and tail calls */
	ENGINE_RETURN,  /* return probe */
	ENGINE_SYS_EXIT,  /* return of all system calls */
	ENGINE_FEXIT,     /* return of kernel functions, one program per function */
	ENGINE_KRETURN,   /* the same with kretprobes */
	ENGINE_COUNT,   /* entry, counted only */
	ENGINE_USDT,    /* the site of a USDT probe */
	ENGINE_GPU,     /* the site of a batch of GPU activities */
	ENGINE_TRACE,   /* a tracepoint */
	ENGINE_SAMPLE,  /* perf event on each CPU */
	ENGINE_WAIT,    /* scheduler tracepoints; offsets are enum wait */
	ENGINE_ENTRY,   /* entry */
	ENGINE_SESSION, /* entry and return */
	ENGINE_SYS_ENTER, /* all system calls */
	ENGINE_FENTRY,
	ENGINE_KPROBE,
	ENGINE_PROG_CNT
};

/* True for system call tracepoints: one link for all targets; .offsets are system call numbers. */
static inline bool engine_prog_traces(enum engine_prog prog)
{
	return prog == ENGINE_SYS_ENTER || prog == ENGINE_SYS_EXIT;
}

/* Waits of threads: until runnable, or, if runnable, for a CPU. */
enum wait { WAIT_OFF_CPU, WAIT_RUN_QUEUE, WAIT_CNT };

struct fsn_jump;

/* True for kernel functions: .offsets are BTF ids or, for kprobes, pointers to the names. */
static inline bool engine_prog_is_kfunc(enum engine_prog prog)
{
	return prog == ENGINE_FEXIT || prog == ENGINE_KRETURN || prog == ENGINE_FENTRY ||
		prog == ENGINE_KPROBE;
}

struct probe_list {
	enum engine_prog prog;
	const char *path; /* for messages */
	struct link_probes probes;
	unsigned long *offsets; /* .probes points to these arrays */
	unsigned long *semaphores;
	uint64_t *cookies;
};

/* Probes of one place. They have their own links, because they may be removed before the group. */
struct place_probes {
	struct probe_list ends, entry;
	uint32_t leader; /* the first function with a tail call to it */
	uint32_t object;
};

struct probes {
	struct probe_list *lists; /* in the order of attachment */
	size_t object_cnt, list_cnt, total;
	struct fsn_jump *jumps;
	size_t jump_cnt;
	bool follows; /* some tail call is tracked */
	bool goroutines; /* some calls are matched by goroutine */
	struct place_probes *places; /* tail-called functions that are not in the group */
	size_t place_cnt;
	uint32_t place_first; /* number of the first place */
	struct fsn_sources *sources; /* indexed by the numbers in cookies */
	size_t source_cnt;
	bool spans; /* some target is a span */
};

/*
 * Collects the probes of all targets: one list per object and BPF program. Returns 0, or -E2BIG if
 * there are more targets or indirect jumps than a cookie can number.
 */
struct draft;
int probes_new(const struct draft *draft, enum link_mode mode, struct probes *ret_probes,
	struct err *err);
void probes_done(struct probes *p);

/* For kinds: adds a probe at @offset of object number @object. */
void probes_add(struct probes *p, uint32_t object, enum engine_prog prog,
	uint64_t offset, uint64_t cookie);

/* For kinds: adds a probe of place number @no; @prog is ENGINE_END or ENGINE_ENTRY. */
void probes_add_place(struct probes *p, uint32_t no, uint32_t object,
	enum engine_prog prog, uint64_t offset, uint64_t cookie);

/*
 * For kinds: adds a probe of target @fn at @site of object number @object. It is the event that
 * starts the call or, with @kind FSN_END, ends it. Returns 0 or -E2BIG.
 */
_must_check_ int probes_add_event(struct probes *p, uint32_t object, enum engine_prog prog,
	const struct event_site *site, uint32_t fn, enum fsn_kind kind);

/* --- kinds ---------------------------------------------------------------------------------- */

/* Stored in pinned groups, so the numbers must not change. */
enum target_number {
	TARGET_USER, /* a function of a program or library; the default */
	TARGET_SYSCALL,
	TARGET_USDT,
	TARGET_TRACEPOINT,
	TARGET_SPAN,
	TARGET_KFUNC,
	TARGET_WAIT,
	TARGET_SAMPLE,
	TARGET_GPU,
	TARGET_CNT
};

struct draft;

/* How the overhead of a target's probes is calibrated. */
enum priced_by {
	PRICED_NOT,
	PRICED_BY_SITE,   /* by the instruction at the site, like functions */
	PRICED_AS_SYSCALL /* like system calls */
};

/* Where stack walks start. All targets of a group have the same value. */
enum kind_stacks {
	STACKS_OF_CALLS,   /* at the registers of a probe in a file; other targets have no stacks */
	STACKS_OF_USER,    /* at the entry into the kernel, or at the probe of an event */
	STACKS_OF_THREADS, /* in the kernel, followed by the user stack */
};

struct target_kind {
	enum target_number number;
	const char *prefix; /* prefix of a FUNCTION of this kind, before ':' */
	const char *also[6]; /* other accepted prefixes, from other tracers */
	const char *noun;   /* "function" */
	const char *word;   /* the same in JSON */
	bool in_files;      /* its targets are at offsets in files */
	bool is_event;      /* its targets have no return */
	bool has_callers;   /* its probes see a return address */
	bool is_sample;     /* the innermost frame is where the thread was, not the caller */
	enum kind_stacks stacks;
	bool has_paths;     /* text arguments are paths: keep FSN_STR_WIDE bytes */
	bool is_priced;     /* the overhead is subtracted from times, and counts for --overhead */
	enum priced_by priced_by;
	/*
	 * Its calls are waits, which no thread makes: the thread is known when the wait ends, and
	 * its probes add no time to the calls of other groups.
	 */
	bool is_wait;
	bool sleeps; /* threads can sleep in its calls, and be seen again only when they end */
	bool on_gpu; /* times are measured by the GPU */
	/*
	 * True if the BPF programs cannot read the caller's cgroup; NULL: the caller is always the
	 * thread.
	 */
	bool (*lacks_cgroup)(const struct target *t);
	const char *instead; /* hint for a target that cannot be probed; or NULL */
	const char *tax;    /* its cost for other processes, as a sentence; or NULL */
	size_t most;        /* limit for all processes, unless --force is given; 0: no limit */

	/*
	 * Adds the targets of @reqs (one or more, all of this kind), and the optional requests
	 * without a match. @objects are those of --lib or the preset, possibly none. Errors are
	 * those of resolve_functions(). NULL: uses .catalogue.
	 */
	const struct catalogue *catalogue;
	int (*find)(struct libfind *finder, const struct objects *objects,
		const struct request *const *reqs, size_t req_cnt, struct targets *targets,
		struct err *err);

	/*
	 * Plans @cnt targets of @draft, from @first, that are not refused. A target that cannot be
	 * probed is not an error: .refused is then the reason.
	 */
	int (*plan)(struct draft *draft, size_t first, size_t cnt,
		const struct plan_rules *rules, struct err *err);

	/*
	 * Adds the probes of target @fn of @draft to @probes, for links of @mode. Returns 0, or
	 * -E2BIG if a cookie cannot number them.
	 */
	int (*link)(struct probes *probes, const struct draft *draft, uint32_t fn,
		enum link_mode mode);

	/* Adds probes that belong to an object, but to none of its targets; or NULL. */
	int (*link_object)(struct probes *probes, const struct draft *draft, uint32_t object);

	/* True if the object that was at @path with @id at the attach no longer is; NULL: never. */
	bool (*is_stale)(const char *path, const struct object_id *id);

	/*
	 * True if a call at @where cannot be running in the thread of @stack any more. NULL, also for
	 * the next: the stack of a thread in a span or in the kernel does not show that.
	 */
	bool (*call_is_stale)(struct proc_stack *stack, uint64_t where);

	/* True if @where is gone from the process of @stack, as stacks are after an exec. */
	bool (*call_is_lost)(struct proc_stack *stack, uint64_t where);
};

/* Returns -EOPNOTSUPP if targets of @kind cannot have conditions on arguments. */
_must_check_ int target_kind_check_condition(const struct target_kind *kind, struct err *err);

/* Indexed by enum target_number. */
extern const struct target_kind *const target_kinds[TARGET_CNT];

/* Returns the kind with that number in a group; an unknown number is a function. */
const struct target_kind *target_kind(unsigned int number);

/* Returns the kind of the prefix of @func; without a prefix, a function of a program. */
const struct target_kind *target_kind_of(const char *func);

/* Returns the target's name in @func, after the prefix if there is one. */
const char *target_name_in(const struct target_kind *kind, const char *func);

extern const struct target_kind target_user;
extern const struct target_kind target_syscall;
extern const struct target_kind target_usdt;
extern const struct target_kind target_tracepoint;
extern const struct target_kind target_span;
extern const struct target_kind target_kfunc;
extern const struct target_kind target_wait;
extern const struct target_kind target_sample;
extern const struct target_kind target_gpu;

/* Gets the path of libfuncsnoop-gpu.so of this program, installed or in its build directory. */
bool target_gpu_library(char path[PATH_MAX]);

/* True if @t is kernels that GPUs run, a function that launches some, or NVTX ranges. */
bool target_gpu_is_kernels(const struct target *t);
bool target_gpu_is_launch(const struct target *t);
bool target_gpu_is_ranges(const struct target *t);

/* Parses "1/30": one second in 30 is recorded. Returns -EINVAL, with the possible values. */
_must_check_ int target_gpu_duty(const char *text, uint32_t *ret_seconds, struct err *err);
