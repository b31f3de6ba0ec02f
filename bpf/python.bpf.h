/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Python frames replace the frame of the interpreter's C function in a stack walk. They
 * are read from the interpreter's thread state. Each code object is copied when it is
 * first met, so that frames are the same in all processes and can be named after these
 * have exited.
 *
 * The frames of one call of the C function are recognized by address: each call has data
 * on the C stack, between the start and the end of its frame. If that data is missing or
 * not readable, the interpreter's frame remains. Before 3.10 there is no such data, but
 * one Python frame per call: if a complete stack has as many calls as Python has frames,
 * they are in the same order. It has one more while the innermost call starts or returns.
 *
 * A walk does this in separate steps, because together they would not fit the 512 bytes
 * of stack.
 */
#pragma once

#include "unwind.bpf.h"

/* Python code objects that are met for the first time: a copy of each names its frames. */

/*
 * A code object at an address in a process, recognized by its content; .at is 0 while
 * being written.
 */
struct python_seen {
	__u64 at, ident, stamp, number;
};

static __always_inline __u64 mixed(__u64 hash, __u64 word)
{
	return ((hash ^ hash >> 32) ^ word) * 0x9e3779b97f4a7c15ULL;
}

static __always_inline __u64 python_word(struct walk *w, __u64 addr)
{
	if (bpf_probe_read_user(w->py.words, sizeof(__u64), (void *)addr))
		return 0;
	return w->py.words[0];
}

static __always_inline struct python_seen *seen_place(const struct walk *w)
{
	return seen_at(FSN_SEEN_CODES, mixed(w->ident, w->py.code));
}

/*
 * Prepares reading a string of the code object: its address, its length and its character
 * size. If it is longer than @room, only its start is read, or with @tail its end.
 */
static __always_inline __u64 text_find(struct walk *w, __u64 addr, __u32 room, bool tail)
{
	__u64 len, state, kind;

	if (bpf_probe_read_user(w->py.words, 24, (void *)(addr + FSN_PYTHON_TEXT_LEN)))
		return 0;
	len = w->py.words[0];
	state = w->py.words[2];
	kind = state >> 2 & 7;
	if (!len || len > 1 << 16 || (kind != 1 && kind != 2 && kind != 4) || !(state >> 5 & 1))
		return 0;
	w->py.text_len = len;
	w->py.text_kind = kind;
	w->py.text_bytes = len * kind > room ? room : len * kind;
	addr += state >> 6 & 1 ? w->py.p.ascii : w->py.p.compact;
	return tail ? addr + len * kind - w->py.text_bytes : addr;
}

/* The name of the function. */
__noinline int python_name(struct walk *w)
{
	struct fsn_python_code *made;
	__u64 addr, bytes;

	if (!fsn_walks_python || !w)
		return 0;
	made = &w->py.made;
	w->py.step = PYTHON_FAIL;
	for (__u32 i = 0; i < sizeof(made->name) / 8; i++)
		((volatile __u64 *)made->name)[i] = 0;
	addr = text_find(w, w->py.name, sizeof(made->name), false);
	bytes = w->py.text_bytes;
	if (!addr || bytes > sizeof(made->name) ||
		bpf_probe_read_user(made->name, bytes, (void *)addr))
		return 0;
	made->name_len = w->py.text_len;
	made->name_kind = w->py.text_kind;
	w->py.step = PYTHON_FILE;
	return 0;
}

/* The name of the file, and the size of the line table. */
__noinline int python_file(struct walk *w)
{
	struct fsn_python_code *made;
	__u64 addr, bytes, size;

	if (!fsn_walks_python || !w)
		return 0;
	made = &w->py.made;
	w->py.step = PYTHON_FAIL;
	for (__u32 i = 0; i < sizeof(made->file) / 8; i++)
		((volatile __u64 *)made->file)[i] = 0;
	addr = text_find(w, w->py.file, sizeof(made->file), true);
	bytes = w->py.text_bytes;
	if (!addr || bytes > sizeof(made->file) ||
		bpf_probe_read_user(made->file, bytes, (void *)addr))
		return 0;
	made->file_len = w->py.text_len;
	made->file_kind = w->py.text_kind;
	made->minor = w->py.p.minor;
	size = python_word(w, w->py.lines + FSN_PYTHON_BYTES_LEN);
	made->lines = size > FSN_PYTHON_LINES ? FSN_PYTHON_LINES : size;
	made->hash = 0;
	made->first_piece = 0;
	made->ready = 0;
	w->py.hashed = 0;
	w->py.step = PYTHON_HASH;
	return 0;
}

/* Adds the next part of the line table to the hash, then the rest of the data. */
__noinline int python_hash(struct walk *w)
{
	__u32 bytes;
	__u64 hash;

	if (!fsn_walks_python || !w)
		return 0;
	hash = w->py.made.hash;
	bytes = w->py.made.lines - w->py.hashed;
	if (w->py.hashed >= w->py.made.lines) {
		for (__u32 i = 3; i < sizeof(w->py.made) / 8; i++)
			hash = mixed(hash, ((__u64 *)&w->py.made)[i]);
		w->py.made.hash = (hash ^ hash >> 29) | 1;
		w->py.step = PYTHON_KEEP;
		return 0;
	}
	if (bytes > sizeof(w->window))
		bytes = sizeof(w->window);
	w->bytes = 0;
	w->window[bytes >> 3 & (WINDOW_WORDS - 1)] = 0;
	if (bpf_probe_read_user(w->window, bytes,
		    (void *)(w->py.lines + FSN_PYTHON_BYTES + w->py.hashed))) {
		w->py.step = PYTHON_FAIL;
		return 0;
	}
	for (__u32 i = 0; i < WINDOW_WORDS; i++) {
		if (i * 8 >= bytes)
			break;
		hash = mixed(hash, w->window[i]);
	}
	w->py.made.hash = hash;
	w->py.hashed += bytes;
	return 0;
}

/* Caches the number of the code object by its address. */
static __always_inline void seen_keep(const struct walk *w)
{
	struct python_seen *seen = seen_place(w);
	__u64 before = seen ? READ(seen->at) : RULE_LOCKED;

	if (!seen || before == RULE_LOCKED || !swap(&seen->at, before, RULE_LOCKED))
		return;
	seen->ident = w->ident;
	seen->stamp = w->py.stamp;
	seen->number = w->py.number;
	publish(&seen->at, w->py.code);
}

/* Finds the number of the code object, or claims one if it is new: python_write(). */
__noinline int python_keep(struct walk *w)
{
	struct fsn_python_code *code;
	__u64 hash, seen;
	__u32 i;

	if (!fsn_walks_python || !w)
		return 0;
	hash = w->py.made.hash;
	w->py.step = PYTHON_FAIL;
	for (__u32 n = 0; n < FSN_STACK_PROBES; n++) {
		i = ((hash >> 32) + n) & (FSN_PYTHON_CODES - 1);
		code = bpf_map_lookup_elem(&fsn_python_codes, &i);
		if (!code)
			break;
		seen = READ(code->hash);
		if (!seen && swap(&code->hash, 0, hash)) {
			w->py.number = i + 1;
			w->py.step = PYTHON_WRITE;
			return 0;
		}
		if (!seen)
			seen = READ(code->hash);
		if (seen != hash)
			continue;
		w->py.number = i + 1;
		w->py.step = PYTHON_PUSH;
		seen_keep(w);
		return 0;
	}
	return 0;
}

/* Writes a new code object for commands. */
__noinline int python_write(struct walk *w)
{
	struct fsn_python_lines *piece;
	struct fsn_python_code *code;
	__u32 first, cnt, bytes, i;

	if (!fsn_walks_python || !w)
		return 0;
	w->py.step = PYTHON_PUSH;
	i = w->py.number - 1;
	code = bpf_map_lookup_elem(&fsn_python_codes, &i);
	if (!code)
		return 0;
	cnt = (w->py.made.lines + FSN_PYTHON_PIECE - 1) / FSN_PYTHON_PIECE;
	first = __sync_fetch_and_add(&ctl.python_pieces, cnt);
	if (first + cnt > FSN_PYTHON_PIECES)
		w->py.made.lines = 0;
	w->py.made.first_piece = first;
	for (__u32 n = 0; n < FSN_PYTHON_LINES / FSN_PYTHON_PIECE; n++) {
		bytes = w->py.made.lines - n * FSN_PYTHON_PIECE;
		if (n * FSN_PYTHON_PIECE >= w->py.made.lines)
			break;
		if (bytes > FSN_PYTHON_PIECE)
			bytes = FSN_PYTHON_PIECE;
		i = first + n;
		piece = bpf_map_lookup_elem(&fsn_python_lines, &i);
		if (!piece || bpf_probe_read_user(piece, bytes,
				      (void *)(w->py.lines + FSN_PYTHON_BYTES +
					      n * FSN_PYTHON_PIECE)))
			w->py.made.lines = 0;
	}
	for (__u32 n = 1; n < sizeof(*code) / 8; n++)
		((__u64 *)code)[n] = ((__u64 *)&w->py.made)[n];
	(void)__sync_lock_test_and_set(&code->ready, 1);
	seen_keep(w);
	return 0;
}

/* maximum number of threads that are searched for the current one */
#define PYTHON_THREADS 512

/*
 * State of a thread, and the address at which the pointer to it was found; .self is 0
 * while being written.
 */
struct python_thread {
	__u64 self, ident, state, link;
};

#define PYTHON_WORD(w, at) ((w)->py.words[(at) >> 3 & (PYTHON_WORDS - 1)])

/* --- the current thread ------------------------------------------------------------- */

#if defined(__TARGET_ARCH_x86)
/* pthread_self(), as C libraries store it there. */
static __always_inline __u64 own_thread(void)
{
	return thread_pointer(bpf_get_current_task_btf());
}
#elif defined(__TARGET_ARCH_arm64)
static __always_inline __u64 own_thread(void)
{
	return bpf_get_current_task_btf()->pid;
}
#endif

static __always_inline struct python_thread *thread_place(const struct walk *w, __u64 self)
{
	return seen_at(FSN_SEEN_THREADS, mixed(w->ident, self));
}

/* Checks the thread state that was found earlier. */
static __always_inline bool thread_known(struct walk *w, __u64 self)
{
	struct python_thread *known = thread_place(w, self);
	__u64 state, link;

	if (!known || READ(known->self) != self || known->ident != w->ident)
		return false;
	state = known->state;
	link = known->link;
	if (READ(known[AFTER(link, 0)].self) != self || python_word(w, link) != state ||
		python_word(w, state + w->py.p.thread) != self)
		return false;
	w->py.state = state;
	return true;
}

/* Caches the address of the thread state. */
static __always_inline void thread_keep(const struct walk *w, __u64 self, __u64 link)
{
	struct python_thread *known = thread_place(w, self);
	__u64 seen = known ? READ(known->self) : RULE_LOCKED;

	if (!known || seen == RULE_LOCKED || !swap(&known->self, seen, RULE_LOCKED))
		return;
	known->ident = w->ident;
	known->state = w->py.state;
	known->link = link;
	publish(&known->self, self);
}

/* Searches the thread states of all interpreters. */
static __always_inline void thread_look(struct walk *w, __u64 self)
{
	__u64 interpreter = python_word(w, w->py.base + w->py.p.runtime + w->py.p.interpreters);
	__u64 link = interpreter + w->py.p.threads, state;

	for (int i = 0; i < PYTHON_THREADS && interpreter; i++) {
		state = python_word(w, link);
		if (!state) {
			interpreter = python_word(w, interpreter + w->py.p.next_interpreter);
			link = interpreter + w->py.p.threads;
			continue;
		}
		if (python_word(w, state + w->py.p.thread) == self) {
			w->py.state = state;
			thread_keep(w, self, link);
			return;
		}
		link = state + w->py.p.next_thread;
	}
}

/* Longest list of frames that is compared. */
#define PYTHON_CHAIN 1024

/*
 * 3.10: true if there are as many frames as calls with data on the C stack, so that no
 * call is just starting or returning.
 */
static __always_inline bool chains_agree(struct walk *w, __u64 frame, __u64 cframe)
{
	/* the outermost belongs to the thread itself */
	__u64 root = w->py.state + w->py.p.root_cframe;

	for (int i = 0; i <= PYTHON_CHAIN; i++) {
		if (cframe == root || !cframe || !frame)
			return cframe == root && !frame;
		cframe = python_word(w, cframe + w->py.p.outer_cframe);
		frame = python_word(w, frame + w->py.p.previous);
	}
	return false;
}

/* FSN_PYTHON_COUNT: true if there are as many frames as calls. */
static __always_inline bool calls_agree(struct walk *w, __u64 frame)
{
	__u32 cnt = 0;

	for (int i = 0; i < PYTHON_CHAIN && frame; i++) {
		frame = python_word(w, frame + w->py.p.previous);
		cnt++;
	}
	return !frame && cnt == w->py.calls;
}

/* Finds the thread state. Not static, like all steps: verified once. */
__noinline int python_find(struct walk *w)
{
	__u64 self = own_thread(), at;

	if (!fsn_walks_python || !w)
		return 0;
	if (self < 2 || (!thread_known(w, self) && (thread_look(w, self), !w->py.state))) {
		/* The same holds for the other frames of this walk. */
		w->py.state = 1;
		w->py.frame = w->py.cframe = 0;
		w->py.step = w->py.total ? PYTHON_CALL : PYTHON_FAIL;
		return 0;
	}
	at = python_word(w, w->py.state + w->py.p.frame);
	w->py.cframe = w->py.p.how == FSN_PYTHON_SHIM
		? 0
		: python_word(w, w->py.state + w->py.p.cframe);
	if (at && w->py.p.in_cframe >= 0)
		at = python_word(w, at + w->py.p.in_cframe);
	w->py.frame = at;
	if ((w->py.p.how == FSN_PYTHON_EACH && !chains_agree(w, at, w->py.cframe)) ||
		(w->py.total && !calls_agree(w, at)))
		w->py.frame = w->py.cframe = 0;
	w->py.step = PYTHON_CALL;
	return 0;
}

/* --- a call of the interpreter's function ------------------------------------------------------- */

/* Starts the replacement of the last frame, an interpreter's. */
__noinline int python_begin(struct walk *w)
{
	__u64 base;
	__u32 file;
	const struct fsn_python *p;

	if (!fsn_walks_python || !w)
		return 0;
	file = w->frame >> FSN_FRAME_SHIFT;
	base = w->py.at - (w->frame & FSN_FRAME_OFFSET);
	w->py.native = w->frames[(w->cnt - 1) & FSN_FRAMES_MAX];
	w->py.cnt = w->cnt;
	w->py.with = w->hash;
	w->py.step = w->py.state ? PYTHON_CALL : PYTHON_FIND;
	if (w->py.base != base) {
		p = bpf_map_lookup_elem(&fsn_pythons, &file);
		if (!p || w->py.base) {
			w->py.step = PYTHON_FAIL;
			return 0;
		}
		w->py.p = *p;
		w->py.base = base;
	}
	if (w->py.p.how == FSN_PYTHON_COUNT) {
		eval_count(w);
		w->py.step = 0;
	}
	return 0;
}

/* FSN_PYTHON_COUNT: goes to the next call to replace. Returns the end of the walk after the last. */
static __always_inline int python_next(struct walk *w)
{
	__u32 at;

	if (!w->py.frame || w->py.done >= w->py.shown)
		return w->py.end;
	at = w->py.place[w->py.done++ & FSN_FRAMES_MAX];
	w->py.native = w->frames[at & FSN_FRAMES_MAX];
	w->cnt = at;
	w->py.cnt = at + 1;
	w->py.step = PYTHON_FRAME;
	return 0;
}

/* Hashes the frames of a walk with counted calls. Returns its end, 0 if it has not ended. */
__noinline int python_done(struct walk *w)
{
	__u64 hash = 0;

	if (!fsn_walks_python || !w)
		return 0;
	add(&ctl.lost_python, w->py.shown - w->py.done);
	if (!w->py.total)
		return 0;
	for (__u32 i = 0; i < FSN_FRAMES_MAX && i < w->py.total; i++)
		hash = mixed(hash, w->frames[i]);
	w->hash = hash;
	w->cnt = w->py.total;
	return w->py.end;
}

/* True if @addr is in the C frame that the walk has just left. */
static __always_inline bool is_of_call(const struct walk *w, __u64 addr)
{
	return addr - w->py.low < WALK_BEGIN(w) - w->py.low;
}

/* PYTHON_CALL: finds the innermost Python frame of this call, and drops the interpreter's frame. */
__noinline int python_call(struct walk *w)
{
	if (!fsn_walks_python || !w)
		return 0;
	if (w->py.total)
		return python_next(w);
	w->py.step = PYTHON_FAIL;
	if (w->py.p.how != FSN_PYTHON_SHIM) {
		__u64 cframe = w->py.cframe;

		if (!is_of_call(w, cframe))
			return 0;
		w->py.cframe = python_word(w, cframe + w->py.p.outer_cframe);
		if (w->py.p.how == FSN_PYTHON_ENTRY)
			w->py.frame = python_word(w, cframe + w->py.p.in_cframe);
	}
	w->py.first = w->py.frame;
	w->cnt--;
	w->hash = w->py.hash;
	w->py.step = PYTHON_FRAME;
	return 0;
}

/* Keeps the interpreter's frame. */
static __always_inline void python_leave(struct walk *w)
{
	w->cnt = w->py.cnt;
	w->frames[(w->cnt - 1) & FSN_FRAMES_MAX] = w->py.native;
	w->hash = w->py.with;
	w->py.step = w->py.total ? PYTHON_CALL : 0;
}

/* PYTHON_FAIL: restores the interpreter's frame, and drops the cached thread state. */
__noinline int python_fail(struct walk *w)
{
	struct python_thread *known;

	if (!fsn_walks_python || !w)
		return 0;
	python_leave(w);
	if (w->py.p.how == FSN_PYTHON_SHIM)
		w->py.frame = w->py.first;
	known = thread_place(w, own_thread());
	/* The thread state found may not be one. */
	if (known && READ(known->self) != RULE_LOCKED)
		(void)__sync_lock_test_and_set(&known->self, 0);
	add(&ctl.lost_python, 1);
	return 0;
}

/* --- frames ------------------------------------------------------------------------------------- */

/* Data that differs between code objects at the same address. */
static __always_inline bool code_stamp(struct walk *w)
{
	__u64 stamp = w->py.made.first_line;

	if (bpf_probe_read_user(&w->py.words[3], 56, (void *)(w->py.name + FSN_PYTHON_TEXT_LEN)) ||
		bpf_probe_read_user(&w->py.words[10], 24,
			(void *)(w->py.lines + FSN_PYTHON_BYTES_LEN)))
		return false;
	w->py.words[0] = w->py.name;
	w->py.words[1] = w->py.file;
	w->py.words[2] = w->py.lines;
#pragma unroll
	for (int i = 0; i < 13; i++) {
		stamp = stamp * 0x9e3779b97f4a7c15ULL + w->py.words[i];
		/* One after the other: all at once would need too much stack. */
		asm volatile("" : "+r"(stamp)::"memory");
	}
	w->py.stamp = stamp ^ stamp >> 32;
	return true;
}

/* Pushes the frame of code .number. */
static __always_inline void frame_push(struct walk *w)
{
	__u64 at = w->py.instruction, frame;

	if (w->py.p.how == FSN_PYTHON_EACH)
		at = (__u32)at;
	else if (w->py.p.how == FSN_PYTHON_COUNT)
		at = (__u32)at >> 1;
	else
		at = (at - w->py.code - w->py.p.instructions) >> 1;
	if (at > FSN_PYTHON_AT_NONE)
		at = FSN_PYTHON_AT_NONE;
	frame = FSN_FRAME_PYTHON << FSN_FRAME_SHIFT | w->py.number << FSN_PYTHON_CODE_SHIFT | at;
	w->frames[w->cnt++ & FSN_FRAMES_MAX] = frame;
	w->hash = mixed(w->hash, frame);
	w->py.step = w->py.total ? PYTHON_CALL : w->py.last ? 0 : PYTHON_FRAME;
}

__noinline int python_push(struct walk *w)
{
	if (fsn_walks_python && w)
		frame_push(w);
	return 0;
}

/* Reads the code object; pushes the frame if the code object is known. */
static __always_inline int frame_code(struct walk *w)
{
	struct python_seen *seen;
	__u32 bytes = w->py.p.code_bytes;

	if (bytes > FSN_PYTHON_CODE_BYTES ||
		bpf_probe_read_user(w->py.words, bytes, (void *)w->py.code) ||
		PYTHON_WORD(w, w->py.p.type) != w->py.base + w->py.p.code_type)
		return 0;
	w->py.name = PYTHON_WORD(w, w->py.p.name);
	w->py.file = PYTHON_WORD(w, w->py.p.file);
	w->py.lines = PYTHON_WORD(w, w->py.p.lines);
	w->py.made.first_line = ((__u32 *)w->py.words)[w->py.p.first_line >> 2 & 63];
	if (!code_stamp(w))
		return 0;
	w->py.step = PYTHON_NAME;
	seen = seen_place(w);
	if (!seen || READ(seen->at) != w->py.code || seen->ident != w->ident ||
		seen->stamp != w->py.stamp)
		return 0;
	w->py.number = READ(seen[AFTER(seen->stamp, 0)].number);
	if (READ(seen[AFTER(w->py.number, 0)].at) == w->py.code)
		frame_push(w);
	return 0;
}

/* Goes to the next outer Python frame; a frame without code ends the call. */
__noinline int python_frame(struct walk *w)
{
	__u64 frame, next;
	__u32 bytes;
	__u8 owner;

	if (!fsn_walks_python || !w)
		return 0;
	w->py.step = PYTHON_FAIL;
	frame = w->py.frame;
	bytes = w->py.p.frame_bytes;
	w->py.frame = 0;
	if (!frame || bytes > FSN_PYTHON_FRAME_BYTES ||
		bpf_probe_read_user(w->py.words, bytes, (void *)frame))
		return 0;
	owner = ((__u8 *)w->py.words)[w->py.p.owner & (FSN_PYTHON_FRAME_BYTES - 1)];
	next = PYTHON_WORD(w, w->py.p.previous);
	if (w->py.p.how == FSN_PYTHON_SHIM && owner == w->py.p.shim) {
		if (!is_of_call(w, frame))
			return 0;
		if (w->cnt == w->py.cnt - 1)
			python_leave(w);
		w->py.step = 0;
		w->py.frame = next;
		return 0;
	}
	if (w->cnt >= FSN_FRAMES_MAX)
		return FSN_WALK_DEEP;
	w->py.frame = next;
	w->py.last = w->py.p.how == FSN_PYTHON_EACH ||
		(w->py.p.how == FSN_PYTHON_ENTRY && owner == 1);
	/* Since 3.14 the lowest bits have the kind of the reference. */
	w->py.code = PYTHON_WORD(w, w->py.p.code) & ~7ULL;
	w->py.instruction = PYTHON_WORD(w, w->py.p.at);
	return frame_code(w);
}

/* --- dispatch ----------------------------------------------------------------------- */

/* Executes the next step. Returns 0, or the enum fsn_walk_end of the walk. */
__noinline int python_step(struct walk *w)
{
	if (!fsn_walks_python || !w || !w->py.step)
		return 0;
	switch (w->py.step) {
	case PYTHON_BEGIN:
		return python_begin(w);
	case PYTHON_FIND:
		return python_find(w);
	case PYTHON_CALL:
		return python_call(w);
	case PYTHON_FRAME:
		return python_frame(w);
	case PYTHON_PUSH:
		return python_push(w);
	case PYTHON_NAME:
		return python_name(w);
	case PYTHON_FILE:
		return python_file(w);
	case PYTHON_HASH:
		return python_hash(w);
	case PYTHON_KEEP:
		return python_keep(w);
	case PYTHON_WRITE:
		return python_write(w);
	default:
		return python_fail(w);
	}
}
