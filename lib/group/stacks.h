/* SPDX-License-Identifier: BSD-2-Clause */
/* Stacks of the calls of a group, and names of their frames. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/util.h"
#include "shared/words.h"

struct group;

/* One stack; it belongs to its struct stacks. */
struct stack {
	const uint64_t *frames; /* innermost first: the caller, its caller, ... */
	size_t cnt;             /* 0: not known */
	enum fsn_walk_end end;  /* why the walk stopped */
	size_t inner;           /* names of the first frame that are not callers: stack_begin() */
};

/* True if the thread was in the kernel: the innermost frame is the kernel's. */
bool stack_in_kernel(const struct stack *stack);

struct stacks;

/*
 * Reads all current stacks of @g, which outlives *@ret_stacks. stacks_get() reads later ones on
 * demand. *@ret_stacks is NULL if the group records no stacks. The caller frees it with
 * stacks_free().
 *
 * Returns 0, -EACCES or -EPERM if the caller can only read the counters, -ENOMEM or -EPROTO.
 */
_must_check_ int stacks_read(const struct group *g, struct stacks **ret_stacks, struct err *err);
void stacks_free(struct stacks *s);

/* Returns the size of all unwind tables in bytes, or 0 if there are none or they are unreadable. */
uint64_t stacks_memory(const struct group *g);

/* Returns stack @number, from the key of a row. It is valid until the next call. */
struct stack stacks_get(const struct stacks *s, uint64_t number);

/*
 * A function at a code address: the one that contains the address, or one that the compiler has
 * inlined there.
 */
struct frame_name {
	char *name;         /* as the source has it, "FILE+0xOFFSET", or an address */
	char *text;         /* the same with the line, "get (heap.c:99)"; or .name */
	char *source;       /* a path; NULL: not known */
	unsigned int line;
	bool inlined;       /* into the next function; .text ends in "_[i]" */
	bool is_python;     /* .source and .line are known without debug information */
};

/* Adds source lines and inlined functions to all frames that are named from now on. */
void stacks_want_lines(struct stacks *s);
bool stacks_have_lines(const struct stacks *s);

/*
 * Returns the names of @frame of process @pid, innermost first. All but the last one are inlined.
 * A name is that of the source, or "FILE+0xOFFSET". A frame without a file has its name from the
 * perf map of the process; without one, or if @pid is 0, the name is an address.
 *
 * Each frame is looked up once. A name from a perf map is valid until the next call. Returns NULL
 * only if memory is exhausted.
 */
const struct frame_name *stacks_names(
	struct stacks *s, uint64_t frame, pid_t pid, size_t *ret_cnt);

/*
 * Sets .inner of @stack of process @pid: the hits of an inlined copy and of a source line are inside
 * the first frame. Among its names are the copy itself and the functions inlined in it. @fn: which
 * function of the group was called.
 */
void stack_begin(struct stacks *s, struct stack *stack, pid_t pid, uint32_t fn);

/* Returns the names of frame @i of @stack, without the .inner ones. *@ret_cnt is at least 1. */
const struct frame_name *stack_names(
	struct stacks *s, const struct stack *stack, size_t i, pid_t pid, size_t *ret_cnt);

/* Returns a process with JIT code that its perf map has not named so far, or 0. */
pid_t stacks_nameless(const struct stacks *s);

/* True if a frame is of code that V8 has optimized, which can contain functions it calls. */
bool stacks_optimized(const struct stacks *s);

/* Returns the name of the last one: the function that is not inlined. */
const char *stacks_name(struct stacks *s, uint64_t frame, pid_t pid);

/*
 * Returns the name of the code at @addr in process @pid from /tmp/perf-PID.map, or NULL if it is
 * not known. Keeps the map in @maps; the caller frees them with perf_maps_free().
 */
struct perf_map;
const char *perf_map_name(struct perf_map **maps, pid_t pid, uint64_t addr);
void perf_maps_free(struct perf_map *m);

/* Returns the file of @frame and the offset in it, or NULL and the address. */
const char *stacks_place(struct stacks *s, uint64_t frame, uint64_t *ret_offset);

/*
 * Returns the names of the code at @offset of @elf, like stacks_names(). With @lines, uses debug
 * information. The name of the file is taken from @path; without @path, the name is an address.
 * @elf may be NULL. The caller frees the names with frame_names_free().
 */
struct elf_file;
struct frame_name *frame_names(
	struct elf_file *elf, const char *path, uint64_t offset, bool lines, size_t *ret_cnt);
void frame_names_free(struct frame_name *names, size_t cnt);

/* Returns the identifier for JSON: "outermost", "no_table", ... */
const char *stack_end_name(enum fsn_walk_end end);

/* Returns the outermost line of a truncated stack, or NULL if the stack is complete. */
const char *stack_cut(const struct stack *stack);
const char *stack_cut_named(const char *end); /* by stack_end_name() */

/* Returns the reason for truncated stacks as text: "are too deep", ... */
const char *stack_end_text(enum fsn_walk_end end);

DEFINE_CLEANUP(stacks, struct stacks *, stacks_free)
#define _cleanup_stacks_ __cleanup(cleanup_stacks)
