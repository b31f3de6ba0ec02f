/* SPDX-License-Identifier: BSD-2-Clause */
/* Resolves the functions and libraries that a user names: objects, and the targets in them. */
#pragma once

#include <sys/types.h>

#include "base/err.h"
#include "base/util.h"
#include "code/plan.h"
#include "elf/elf_file.h"
#include "proc/proc.h"
#include "shared/words.h"

struct preset_func;
struct target_kind;

/* --- objects -------------------------------------------------------------------------------- */

enum object_kind {
	OBJECT_FILE,     /* a library or a program */
	OBJECT_SYSCALLS, /* the kernel's system calls */
	OBJECT_TRACEPOINTS,
	OBJECT_KERNEL,   /* the kernel, or a module */
	OBJECT_SCHEDULER,
	OBJECT_PROCESSORS,
};

/*
 * The file or part of the kernel that contains targets. Its finder owns it; it outlives all
 * targets.
 */
struct object {
	enum object_kind kind;
	const char *path; /* "[syscalls]", or the real path; "PATH (pid N's namespace)" for a path in
				 another mount namespace: print it, don't open it */
	const char *build_id;  /* "" if it has none */
	struct elf_file *elf;  /* NULL: not a file */
	const char *typed;     /* another path of it that the user gave, or NULL */
	const char *found_how; /* "path", "ld.so.cache", "mapped by pid 12", ... */
	pid_t pid;             /* a process that maps it; 0: no process was given */
};

/* Identifies an object: distinguishes it from a later object with the same path. */
struct object_id {
	uint64_t dev, ino, size, mtime_ns;
};

/* Returns 0 or the error of fstat(2). The id of an object that is not a file is all zeros. */
_must_check_ int object_identify(const struct object *object, struct object_id *ret_id,
	struct err *err);

/* Returns the facts of the object's file; NULL if it is not a file. */
const struct elf_info *object_file(const struct object *object);

/* Checks that its file has not changed since it was read; see elf_file_check(). */
_must_check_ int object_check(const struct object *object, struct err *err);

/* True if the object open at @fd is that of @id. */
bool object_is_open(int fd, const struct object_id *id);

/* True if the object now at @path is not that of @id, or if there is none. */
bool object_is_stale(const char *path, const struct object_id *id);

/* A set of objects. The array is owned, its elements are not. */
struct objects {
	const struct object **object;
	size_t cnt;
};

/* Adds @object unless it is already there. */
void objects_add(struct objects *objects, const struct object *object);
/* Returns its index, or .cnt if it is not there. */
size_t objects_find(const struct objects *objects, const struct object *object);
void objects_done(struct objects *objects);

/* --- targets -------------------------------------------------------------------------------- */

/*
 * A request for one function or pattern. As typed by a user, .func can be:
 * - a name, or name@VERSION;
 * - a glob (* ? [...]);
 * - a demangled C++ or Rust name, with or without its arguments or template arguments;
 * - 0xADDR or sub_ADDR: the function that starts at a virtual address of the file;
 * - name+0xOFF (also 0xADDR+0xOFF), or +0xOFF (a file offset);
 * - SOURCE:LINE: a line of a source file, by a path or its last components; after LIB: also a
 *   pattern of line numbers, such as SOURCE:* for all lines with code;
 * - any of these after a library: LIB:func, /path:func or p:LIB:func, where p can also be r,
 *   uprobe or uretprobe.
 *
 * An existing name is never treated as a glob.
 */
struct request {
	const char *func;
	const char *name; /* name to print; NULL: taken from .func or the symbol */
	bool regex;       /* .func (after LIB:) is a POSIX extended regular expression */
	bool literal;     /* no LIB: prefix and no glob: a symbol or a demangled name */
	bool implied;     /* the user has not asked for it */
	bool optional;    /* if it is missing or refused, it is skipped and counted: no error */
	const struct objects *objects;   /* search only these; NULL: the objects of the call */
	const struct preset_func *known; /* known arguments and result, or NULL */
};

/* A probe site of an event, and the locations of its arguments. */
struct event_site {
	uint64_t offset;    /* USDT: file offset of the probe; tracepoint: its number */
	uint64_t semaphore; /* file offset; 0: none */
	struct fsn_sources from;
};

/* Something without a duration that is traced at one or several sites. */
struct event {
	const struct object *object;
	const struct event_site *sites;
	size_t site_cnt;
};

/*
 * A function or event to probe, from the lookup to the pinned record. Strings live as long as the
 * targets or their objects.
 */
struct target {
	const struct target_kind *kind;
	const struct request *request; /* the first request that matched it */
	const struct object *object;
	uint32_t object_index; /* in the draft's objects; only valid for probed objects */
	const char *name;      /* name to print; unique within the object */
	const char *symbol;    /* as in the symbol table, without version; NULL for a bare offset */
	const char *demangled; /* with arguments; NULL if not mangled */
	const struct elf_func
		*func;     /* with all aliases; NULL: offset outside all symbols */
	uint64_t addr;     /* virtual address of the probe in the file */
	uint64_t offset;   /* the same as a file offset; of a system call its number, of a
				  function of the kernel its BTF's */
	uint64_t site_offset; /* of the entry probe: set by the plan, until then .offset */
	/* function or inlined function with the first code of a line; otherwise NULL */
	const char *around;
	const uint64_t *places; /* addresses whose hits are counted together, .addr first; NULL: it
				   is a function or one instruction */
	size_t place_cnt;
	unsigned char how; /* kernel function: enum kfunc_how */
	bool inside;       /* not at a function's first byte (name+0xOFF, +0xOFF): the
				  plan must see that an instruction begins there */
	bool places_split; /* the count may be too low */
	bool is_clone;     /* a copy or part of a function: its arguments are unknown */
	bool from_pattern; /* from a glob, a regular expression or an optional request */
	bool has_slow;
	uint64_t slow_ns;
	const char *note;  /* what its user should know of it, or NULL */
	const struct preset_func *known; /* known arguments and result, or NULL */
	const char *refused; /* why it cannot be probed, or NULL */
	struct plan plan;
	size_t lost_jumps; /* untracked tail calls; calls that leave through them are untimed */
	bool forwards;     /* it is a single tail call, but its calls are timed anyway */
	enum limit limit;  /* the limit in effect: draft_limit() */
	uint32_t sample;   /* LIMIT_SAMPLED: one call in N is timed */
	uint64_t calls_per_s; /* of a limited function */
	uint64_t cost_ns;     /* overhead without the limit, ns of CPU time per second */
	const struct event *event; /* the event itself, or the first event of an interval; NULL:
				      none */
	const struct event *until; /* the last event of an interval; NULL: none */
};

/* The targets found, and the memory that only they point to. */
struct targets {
	struct target *target;
	size_t cnt;
	const struct request **missing; /* optional requests without a match */
	size_t missing_cnt;
	void **kept;
	size_t kept_cnt;
};

/* Adds @target. The plan in it is not read. */
void targets_add(struct targets *targets, const struct target *target);
/* Records that @request has no match. */
void targets_miss(struct targets *targets, const struct request *request);
/* Returns a copy of @text that lives as long as @targets. */
const char *targets_text(struct targets *targets, const char *text);
/* Returns @size zeroed bytes that live as long as @targets. */
void *targets_keep(struct targets *targets, size_t size);
/* Discards all but the first @cnt targets, and all missing requests. */
void targets_cut(struct targets *targets, size_t cnt);
void targets_done(struct targets *targets);

struct libfind;

/*
 * Adds the functions that match @reqs in @objects to @targets, and the optional requests without a
 * match. A request with LIB: is resolved in that library, by @finder; without such requests,
 * @finder may be NULL. The targets are ordered by request, library and address. Names of one
 * function share one target. On failure, nothing is added.
 *
 * Returns 0, or an error of a request that is not optional:
 * - -ENOENT if no library has the name, or a pattern has no match (the hint lists similar names);
 * - -EOPNOTSUPP if the function exists but cannot be probed;
 * - -EINVAL for a bad pattern or offset;
 * - an error of elf_file_funcs() or libfind_get().
 */
_must_check_ int resolve_functions(struct libfind *finder, const struct objects *objects,
	const struct request *const *reqs, size_t req_cnt, struct targets *targets,
	struct err *err);

/* --- files by a library name as typed ("cudart", a soname, a path) --------------------------- */

struct libfind_opts {
	const pid_t *pids; /* search only these processes; NULL: the system */
	size_t pid_cnt;
	const char *root; /* root of the file system, for tests; NULL is "/" */
	const char *proc; /* NULL is "/proc" */
	const char *program; /* program to be run: found by its file name if no library is; the
			        directories in its environment are also searched */
	struct procs *procs; /* cache of the mappings in @proc; NULL: the finder reads them */
};

struct libfind;

/* Creates a finder, which opens every distinct file once. @opts is copied. */
struct libfind *libfind_new(const struct libfind_opts *opts);
void libfind_free(struct libfind *lf);

/*
 * Finds @lib, which is one of:
 * - a path (contains '/');
 * - a soname (libcudart.so.13);
 * - a stem (cudart, libcudart, libcudart.so): matches libcudart.so, libcudart.so.N... and a wheel's
 *   libcudart-HASH.so.N, but no longer names;
 * - the name of an executable in PATH.
 *
 * Returns all distinct files that match, sorted by path. They belong to the finder; a repeated call
 * returns the same pointers. The caller frees *ret_objects with objects_done().
 *
 * Errors: -ENOENT (the hint lists similar names), -ESRCH if a given process has exited, -EACCES if
 * it must not be inspected, and those of elf_file_open() if @lib is a path.
 */
_must_check_ int libfind_get(struct libfind *lf, const char *lib,
	struct objects *ret_objects, struct err *err);

/*
 * True if the last libfind_get() failed because no such file exists yet; it may appear later.
 * libfind_forgive() resets this: the library was not required.
 */
bool libfind_lacks(const struct libfind *lf);
void libfind_forgive(struct libfind *lf);

/* True if only given processes are searched. */
bool libfind_has_pids(const struct libfind *lf);

/* Adds the files of code that the given processes map. */
void libfind_add_mapped(struct libfind *lf, struct objects *ret_objects);

/*
 * Adds the dependencies of @closure, recursively, if each is found and unambiguous. Stops at the
 * number of files that the dynamic linker could load.
 */
void libfind_closure(struct libfind *lf, struct objects *closure);

/* Returns LIB of a FUNCTION of the form LIB:func, *@ret_len bytes; NULL if there is none. */
const char *function_lib(const char *func, size_t *ret_len);

/*
 * Lists other files that the lookups met, unordered: a file under another path (.file is that
 * file), or one that cannot be used (.file is NULL, .why is the reason). Files that were returned
 * are not included.
 */
struct lib_seen {
	const char *path;
	const struct object *file;
	const char *why;
};
const struct lib_seen *libfind_seen(const struct libfind *lf, size_t *ret_cnt);

/* Returns the cache of mappings, which the finder may share with others. */
struct procs *libfind_procs(const struct libfind *lf);

/* Returns the number of processes skipped in all lookups because they must not be inspected. */
size_t libfind_denied(const struct libfind *lf);

/*
 * Returns the number of mappings with matching names whose files were not opened, because their
 * users map too many such names. Without this limit, any user could keep others from probing.
 */
#define LIBFIND_OF_USER 32
#define LIBFIND_OF_ALL  64
size_t libfind_crowd(const struct libfind *lf);

DEFINE_CLEANUP(libfind, struct libfind *, libfind_free)
#define _cleanup_libfind_ __cleanup(cleanup_libfind)
