/* SPDX-License-Identifier: BSD-2-Clause */
/* The stacks that calls of a group were made by, and names of their frames. */
#ifndef FUNCSNOOP_GROUP_STACKS_H
#define FUNCSNOOP_GROUP_STACKS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/util.h"
#include "shared/words.h"

struct group;

/* One of them; it belongs to its struct stacks. */
struct stack {
	const uint64_t *frames; /* innermost first: who made the call, who called that, ... */
	size_t cnt;             /* 0: it is not known */
	enum fsn_walk_end end;  /* why there are no more */
};

struct stacks;

/*
 * All of @g, which outlives them, as they are now, and others when they are asked for; NULL where it follows none. -EACCES or -EPERM for who may read the
 * counters alone, -ENOMEM, -EPROTO. Free with stacks_free().
 */
_must_check_ int stacks_read(const struct group *g, struct stacks **ret_stacks, struct err *err);
void stacks_free(struct stacks *s);

/* Bytes that tables of files take; 0 where there are none, or they may not be read. */
uint64_t stacks_memory(const struct group *g);

/* That of a row of keys whose word is @number; good until the next is asked for. */
struct stack stacks_get(const struct stacks *s, uint64_t number);

/*
 * A function at a place in code: what is called so, or what the compiler has put into that in the
 * place of its call.
 */
struct frame_name {
	char *name;         /* as the source has it, "FILE+0xOFFSET", or an address */
	char *text;         /* the same with the line, "get (heap.c:99)"; or .name */
	char *source;       /* a path; NULL: it is not known */
	unsigned int line;
	bool inlined;       /* into the next: its .text ends in "_[i]" */
	bool is_python;     /* .source and .line are known without debug information */
};

/* From now on frames have their lines, and what is inlined there. */
void stacks_want_lines(struct stacks *s);
bool stacks_have_lines(const struct stacks *s);

/*
 * What @frame of process @pid is called, innermost first: functions as the source has them, else
 * "FILE+0xOFFSET"; where there is no file what the process says in its perf map, or an address, as
 * for @pid 0. All but the last one are inlined. NULL only when memory is out. It is looked for
 * once; what is of a perf map is good until the next is asked for.
 */
const struct frame_name *stacks_names(
	struct stacks *s, uint64_t frame, pid_t pid, size_t *ret_cnt);

/* A process whose JIT code had no name in its perf map until now; 0: none. */
pid_t stacks_nameless(const struct stacks *s);

/* The name of the last of these: the function that the frame is of. */
const char *stacks_name(struct stacks *s, uint64_t frame, pid_t pid);

/*
 * What lies at @addr in process @pid by its /tmp/perf-PID.map, which is kept among @maps; NULL: it
 * is not known. End with perf_maps_free().
 */
struct perf_map;
const char *perf_map_name(struct perf_map **maps, pid_t pid, uint64_t addr);
void perf_maps_free(struct perf_map *m);

/* Its file, NULL where there is none, and the offset in that, or its address. */
const char *stacks_place(struct stacks *s, uint64_t frame, uint64_t *ret_offset);

/*
 * What code at @offset of @elf is called, with @lines by its debug information, as stacks_names()
 * has it, by the name of @path; to be freed by frame_names_free(). @elf may be NULL; without a
 * path it is an address.
 */
struct elf_file;
struct frame_name *frame_names(
	struct elf_file *elf, const char *path, uint64_t offset, bool lines, size_t *ret_cnt);
void frame_names_free(struct frame_name *names, size_t cnt);

/* "outermost", "no_table": a word for documents. */
const char *stack_end_name(enum fsn_walk_end end);

/* What stands above all frames of a stack that was not followed to its end; NULL: it was. */
const char *stack_cut(const struct stack *stack);
const char *stack_cut_named(const char *end); /* by stack_end_name() */

/* "are too deep": the same of stacks that are not whole, for people. */
const char *stack_end_text(enum fsn_walk_end end);

DEFINE_CLEANUP(stacks, struct stacks *, stacks_free)
#define _cleanup_stacks_ __cleanup(cleanup_stacks)

#endif
