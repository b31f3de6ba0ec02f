/* SPDX-License-Identifier: BSD-2-Clause */
/* From what a user types to what can be probed: objects, and the targets in them. */
#ifndef FUNCSNOOP_FIND_FIND_H
#define FUNCSNOOP_FIND_FIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
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

/* What targets lie in. It and its strings belong to who found it, and outlive all targets. */
struct object {
	enum object_kind kind;
	const char *path; /* "[syscalls]", or the real path; "PATH (pid N's namespace)" when it is not a path
				 of this mount namespace: show it, don't open it */
	const char *build_id;  /* "" when there is none */
	struct elf_file *elf;  /* NULL: it is no file */
	const char *typed;     /* another path of it by which it was asked for, or NULL */
	const char *found_how; /* "path", "ld.so.cache", "mapped by pid 12", ... */
	pid_t pid;             /* a process that maps it, or 0 when that was not asked */
};

/* What tells an object from another one that comes to the same place later. */
struct object_id {
	uint64_t dev, ino, size, mtime_ns;
};

/* Errors as of fstat(2). What is no file has an id of zeros. */
_must_check_ int object_identify(const struct object *object, struct object_id *ret_id,
	struct err *err);

/* What is known of the file that it is; NULL: it is none. */
const struct elf_info *object_file(const struct object *object);

/* Whether its file is still the one that was read: elf_file_check(). */
_must_check_ int object_check(const struct object *object, struct err *err);

/* Whether another object than that of @id, or none, lies at @path now. */
bool object_is_stale(const char *path, const struct object_id *id);

/* Objects, each once. The array is owned, its elements are not. */
struct objects {
	const struct object **object;
	size_t cnt;
};

/* Adds @object unless it is there. */
void objects_add(struct objects *objects, const struct object *object);
/* Its index, or .cnt when it is not there. */
size_t objects_find(const struct objects *objects, const struct object *object);
void objects_done(struct objects *objects);

/* --- targets -------------------------------------------------------------------------------- */

/*
 * One thing asked for. As typed by a user, .func may be: a name, name@VERSION, a glob
 * (* ? [...]), a demangled C++ or Rust name with or without its arguments or template
 * arguments, name+0xOFF, +0xOFF (a file offset), and with a library in front LIB:func,
 * /path:func or p:LIB:func, where p may be r, uprobe or uretprobe. A name that is there to the
 * letter is never taken as a glob.
 */
struct request {
	const char *func;
	const char *name; /* to be shown; NULL: taken from .func or the symbol */
	bool regex;       /* .func (after LIB:) is a POSIX extended regular expression */
	bool literal;     /* no LIB: in front, no glob: a symbol or a demangled name */
	bool optional;    /* missing or refused: left out and counted, no error */
	const struct objects *objects;   /* only here; NULL: the objects of the call */
	const struct preset_func *known; /* what is known of arguments and result, or NULL */
};

/* A place where an event is seen, and where its arguments are there. */
struct event_site {
	uint64_t offset;    /* of a USDT probe in the file; of a tracepoint its number */
	uint64_t semaphore; /* a file offset; 0: none */
	struct fsn_sources from;
};

/* What is seen at one or several places, and has no end. */
struct event {
	const struct object *object;
	const struct event_site *sites;
	size_t site_cnt;
};

/*
 * What is probed, from the look-up to the pinned record. Strings live as long as the targets,
 * or as their objects.
 */
struct target {
	const struct target_kind *kind;
	const struct request *request; /* the first that asked for it */
	const struct object *object;
	uint32_t object_index; /* in the draft's objects; only of those that are probed */
	const char *name;      /* to be shown; different for different targets of an object */
	const char *symbol;    /* as in the table, without version; NULL for a bare offset */
	const char *demangled; /* with arguments, or NULL when it is not mangled */
	const struct elf_func
		*func;     /* with all aliases; NULL: offset outside all symbols */
	uint64_t addr;     /* of the probe: virtual address in the file */
	uint64_t offset;   /* the same as a file offset; of a system call its number, of a
				  function of the kernel its BTF's */
	uint64_t site_offset; /* where the entry probe goes: by the plan, till then .offset */
	bool inside;       /* not at a function's first byte (name+0xOFF, +0xOFF): the
				  plan must see that an instruction begins there */
	bool is_clone;     /* a copy or part of a function: its arguments are not known */
	bool from_pattern; /* a glob, a regular expression, or an optional request */
	bool has_slow;
	uint64_t slow_ns;
	const struct preset_func *known; /* what is known of arguments and result, or NULL */
	unsigned char how; /* of a function of the kernel: enum kfunc_how */
	const char *refused; /* why it can't be probed, or NULL */
	struct plan plan;
	size_t lost_jumps; /* of its ends: calls that leave by them are not timed */
	bool forwards;     /* it is one jump, and its calls are timed all the same */
	enum limit limit;  /* what is given up of it: draft_limit() */
	uint32_t sample;   /* LIMIT_SAMPLED: one call of so many is timed */
	uint64_t calls_per_s; /* of a function that is limited, */
	uint64_t cost_ns;     /* and its cost without the limit, of a second of CPU time */
	const struct event *event; /* that it is, or begins with; NULL: it is none */
	const struct event *until; /* that it ends with; NULL: it has no end */
};

/* Targets that were found, and what they and nobody else point to. */
struct targets {
	struct target *target;
	size_t cnt;
	const struct request **missing; /* optional requests that found nothing */
	size_t missing_cnt;
	void **kept;
	size_t kept_cnt;
};

/* Adds one; its plan is not looked at. */
void targets_add(struct targets *targets, const struct target *target);
/* Notes that nothing was found for @request. */
void targets_miss(struct targets *targets, const struct request *request);
/* A string that lives as long as the targets; NULL when memory is out. */
const char *targets_text(struct targets *targets, const char *text);
/* @size bytes of zeros that live as long; NULL when memory is out. */
void *targets_keep(struct targets *targets, size_t size);
/* Forgets all but the first @cnt targets, and what is missing. */
void targets_cut(struct targets *targets, size_t cnt);
void targets_done(struct targets *targets);

struct libfind;

/*
 * Adds to @targets the functions that all of @reqs mean in @objects (requests with LIB: look
 * there instead, by @finder, which may be NULL if there are none such), in the order of
 * requests, libraries, addresses, and the optional requests that found nothing. Names of one
 * function are folded into one target. On failure nothing is added.
 * Errors are of requests that are not optional: -ENOENT when a name is in no library or a
 * pattern matches nothing (near names in the hint), -EOPNOTSUPP when it is there and can't
 * be probed, -EINVAL for a bad pattern or offset, and the errors of elf_file_funcs() and
 * libfind_get().
 */
_must_check_ int resolve_functions(struct libfind *finder, const struct objects *objects,
	const struct request *const *reqs, size_t req_cnt, struct targets *targets,
	struct err *err);

/* --- from what a user calls a library ("cudart", a soname, a path) to files ----------------- */

struct libfind_opts {
	const pid_t *pids; /* look in these processes only; NULL: on this system */
	size_t pid_cnt;
	const char *root; /* of the file system, for tests; NULL is "" */
	const char *proc; /* NULL is "/proc" */
	const char *program; /* that is to be run: the folders of its environment count, too */
	struct procs *procs; /* what processes map, by @proc; NULL: the finder sees itself */
};

struct libfind;

/* A finder; it opens every distinct file once. @opts is copied. */
struct libfind *libfind_new(const struct libfind_opts *opts);
void libfind_free(struct libfind *lf);

/*
 * Finds @lib: a path (has a '/'), a soname (libcudart.so.13), a stem (cudart, libcudart,
 * libcudart.so: libcudart.so, libcudart.so.N... and a wheel's libcudart-HASH.so.N, nothing
 * longer), or the name of an executable in PATH. All different files that match are
 * returned, sorted by path; they belong to the finder and are the same pointers when asked
 * again. End *ret_objects with objects_done().
 * -ENOENT (near names in the hint), -ESRCH when a given process is gone, -EACCES when it
 * may not be looked at, and elf_file_open()'s errors when @lib is a path.
 */
_must_check_ int libfind_get(struct libfind *lf, const char *lib,
	struct objects *ret_objects, struct err *err);

/*
 * Whether the last libfind_get() has failed for want of any such file, that one may yet come.
 * libfind_forgive() says that this one was not needed.
 */
bool libfind_lacks(const struct libfind *lf);
void libfind_forgive(struct libfind *lf);

/*
 * Adds what the files of @closure need, and what that needs, as far as it is found and is one
 * file; not more than the dynamic linker would have room for.
 */
void libfind_closure(struct libfind *lf, struct objects *closure);

/* LIB of a FUNCTION that is LIB:func, *@ret_len bytes of it; NULL when there is none. */
const char *function_lib(const char *func, size_t *ret_len);

/*
 * What else the look-ups so far came by, in no order: a file under another path than its
 * own (.file is that file), or one that can't be used (.file is NULL, .why says why). Files
 * that were answered are not among them.
 */
struct lib_seen {
	const char *path;
	const struct object *file;
	const char *why;
};
const struct lib_seen *libfind_seen(const struct libfind *lf, size_t *ret_cnt);

/* What processes map, as this finder and who shares it have seen it. */
struct procs *libfind_procs(const struct libfind *lf);

/* Processes passed over because they may not be looked at, during all look-ups so far. */
size_t libfind_denied(const struct libfind *lf);

/*
 * Mappings whose names fit, but whose files were not opened, as their users map too many of
 * such names: whoever can run a program could else keep all others from probing.
 */
#define LIBFIND_OF_USER 32
#define LIBFIND_OF_ALL  64
size_t libfind_crowd(const struct libfind *lf);

DEFINE_CLEANUP(libfind, struct libfind *, libfind_free)
#define _cleanup_libfind_ __cleanup(cleanup_libfind)

#endif
