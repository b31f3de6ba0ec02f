/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Kinds of targets and their operations. A kind has a file in this directory, a BPF program in bpf/
 * if it needs one, and a row in target_kinds[].
 */
#ifndef FUNCSNOOP_TARGET_KIND_H
#define FUNCSNOOP_TARGET_KIND_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "find/find.h"
#include "kernel/kernel.h"
#include "proc/proc.h"

/* --- the probes of a draft, in lists that one link (or kind of link) can take --------------- */

/* Which program a probe runs. */
enum engine_prog {
	ENGINE_END,     /* on ret instructions and tail calls */
	ENGINE_RETURN,  /* return probe */
	ENGINE_SYS_EXIT,  /* the end of all system calls */
	ENGINE_FEXIT,     /* of functions of the kernel, a program for each */
	ENGINE_KRETURN,   /* the same, by kretprobes */
	ENGINE_COUNT,   /* entry, counted only */
	ENGINE_USDT,    /* the place of a USDT probe */
	ENGINE_GPU,     /* the site of a batch of GPU activities */
	ENGINE_TRACE,   /* a tracepoint */
	ENGINE_SAMPLE,  /* of each CPU */
	ENGINE_WAIT,    /* those of the scheduler: offsets are enum wait */
	ENGINE_ENTRY,   /* entry */
	ENGINE_SESSION, /* entry and return */
	ENGINE_SYS_ENTER, /* all system calls */
	ENGINE_FENTRY,
	ENGINE_KPROBE,
	ENGINE_PROG_CNT
};

/* Those of a tracepoint: one link for all targets, which .offsets name by system calls' numbers. */
static inline bool engine_prog_traces(enum engine_prog prog)
{
	return prog == ENGINE_SYS_ENTER || prog == ENGINE_SYS_EXIT;
}

/* Waits of threads: until runnable, or, if runnable, for a CPU. */
enum wait { WAIT_OFF_CPU, WAIT_RUN_QUEUE, WAIT_CNT };

struct fsn_jump;

/*
 * Those of functions of the kernel: .offsets have their numbers in BTF, or, of kprobes, the
 * addresses of their names.
 */
static inline bool engine_prog_is_kfunc(enum engine_prog prog)
{
	return prog == ENGINE_FEXIT || prog == ENGINE_KRETURN || prog == ENGINE_FENTRY ||
		prog == ENGINE_KPROBE;
}

struct probe_list {
	enum engine_prog prog;
	const char *path; /* for messages */
	struct link_probes probes;
	unsigned long *offsets; /* what probes points to */
	unsigned long *semaphores;
	uint64_t *cookies;
};

/* Those of one place have links of their own: they may be removed before the group is. */
struct place_probes {
	struct probe_list ends, entry;
	uint32_t leader; /* the first function that leads there */
	uint32_t object;
};

struct probes {
	struct probe_list *lists; /* in the order in which they are to be attached */
	size_t object_cnt, list_cnt, total;
	struct fsn_jump *jumps;
	size_t jump_cnt;
	bool follows; /* some jump is followed */
	struct place_probes *places; /* tail-called functions that are not in the group */
	size_t place_cnt;
	uint32_t place_first; /* the first place's number */
	struct fsn_sources *sources; /* by the numbers in cookies */
	size_t source_cnt;
	bool spans; /* some target is one */
};

/*
 * One list for each object and program that has probes, as the kinds of its targets make
 * them. -E2BIG when there are more targets or indirect jumps than a cookie can
 * number.
 */
struct draft;
int probes_new(const struct draft *draft, enum link_mode mode, struct probes *ret_probes,
	struct err *err);
void probes_done(struct probes *p);

/* For kinds: adds a probe at @offset of object number @object. */
void probes_add(struct probes *p, uint32_t object, enum engine_prog prog,
	uint64_t offset, uint64_t cookie);

/* For kinds: the same for place number @no, an ENGINE_END or ENGINE_ENTRY. */
void probes_add_place(struct probes *p, uint32_t no, uint32_t object,
	enum engine_prog prog, uint64_t offset, uint64_t cookie);

/*
 * For kinds: adds a probe of target @fn at @site of object number @object, for the event that
 * begins it or, with @kind FSN_END, ends it. -E2BIG.
 */
_must_check_ int probes_add_event(struct probes *p, uint32_t object, enum engine_prog prog,
	const struct event_site *site, uint32_t fn, enum fsn_kind kind);

/* --- kinds ---------------------------------------------------------------------------------- */

/* As pinned groups keep it: a number stays what it is. */
enum target_number {
	TARGET_USER, /* a function of a program or library; what says nothing else is this */
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

/* How the overhead of a target's probes is known. */
enum priced_by {
	PRICED_NOT,
	PRICED_BY_SITE,   /* like a function: by the instruction at the site */
	PRICED_AS_SYSCALL /* as system calls' */
};

/* Where the stack of a call starts. All targets of a group are of one sort. */
enum kind_stacks {
	STACKS_OF_CALLS,   /* at the registers of the probe, in a file; else there are none */
	STACKS_OF_USER,    /* where the thread went into the kernel, or at the probe of an event */
	STACKS_OF_THREADS, /* in the kernel, and goes on there */
};

struct target_kind {
	enum target_number number;
	const char *prefix; /* before a ':', a FUNCTION says its kind so, */
	const char *also[6]; /* or so, where not NULL: words of other tracers */
	const char *noun;   /* "function" */
	const char *word;   /* the same, as JSON has it */
	bool in_files;      /* its targets are at offsets in files */
	bool is_event;      /* its targets have no end */
	bool is_sample;     /* a stack is where a thread was, not who called */
	enum kind_stacks stacks;
	bool has_paths;     /* text of theirs is paths: FSN_STR_WIDE bytes are kept of it */
	bool is_priced;     /* that is taken off times, and --budget goes by it */
	enum priced_by priced_by;
	/*
	 * No thread makes its calls: their subject is known when they are over, and times of
	 * another group do not include its probes.
	 */
	bool is_wait;
	bool on_gpu; /* its times are a GPU's own */
	/*
	 * True if the BPF programs cannot read the caller's cgroup; NULL: the caller is always the
	 * thread.
	 */
	bool (*lacks_cgroup)(const struct target *t);
	const char *instead; /* the hint where one cannot be probed; or NULL */
	const char *tax;    /* what others pay while it is attached, as a sentence; or NULL */
	size_t most;        /* more at once, in all processes, only by --force; 0: any number */

	/*
	 * Adds what @reqs, all of this kind, mean, and which optional ones mean nothing.
	 * @objects are those of --lib or the preset, and may be none. @reqs are one or more.
	 * Errors as of resolve_functions(). NULL: by .catalogue.
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
	 * Adds to @probes those of target @fn of @draft, for links of @mode. -E2BIG
	 * when there is no number for one more.
	 */
	int (*link)(struct probes *probes, const struct draft *draft, uint32_t fn,
		enum link_mode mode);

	/* The same for probes that belong to an object and none of its targets; or NULL. */
	int (*link_object)(struct probes *probes, const struct draft *draft, uint32_t object);

	/* True if the object that was at @path with @id at the attach no longer is. */
	bool (*is_stale)(const char *path, const struct object_id *id);

	/* True if a call at @where cannot be running in the thread of @stack any more. */
	bool (*call_is_stale)(struct proc_stack *stack, uint64_t where);

	/* True if @where is gone from the process of @stack, as stacks are after an exec. */
	bool (*call_is_lost)(struct proc_stack *stack, uint64_t where);
};

/* -EOPNOTSUPP when no condition can be on arguments of @kind's targets. */
_must_check_ int target_kind_check_condition(const struct target_kind *kind, struct err *err);

/* Indexed by enum target_number. */
extern const struct target_kind *const target_kinds[TARGET_CNT];

/* The kind of a group's target by its number there; what is not known is a function. */
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

/* The path of libfuncsnoop-gpu.so that came with this program, installed or as it was built. */
bool target_gpu_library(char path[PATH_MAX]);

/* True if @t is kernels that GPUs run, or a function that launches some. */
bool target_gpu_is_kernels(const struct target *t);
bool target_gpu_is_launch(const struct target *t);

/* "1/30": of how many seconds one is recorded. -EINVAL with those that there are. */
_must_check_ int target_gpu_duty(const char *text, uint32_t *ret_seconds, struct err *err);

#endif
