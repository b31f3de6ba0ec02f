/* SPDX-License-Identifier: GPL-2.0-only */
/* Code of Python that is seen for the first time: a copy of it, by which its frames are named. */
#ifndef FUNCSNOOP_PYTHON_CODE_BPF_H
#define FUNCSNOOP_PYTHON_CODE_BPF_H

#include "unwind.bpf.h"

/* Code at an address in a process, known again by what is in it; .at is 0 while it is written. */
struct python_seen {
	__u64 at, ident, stamp, number;
};

/* No command reads it. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct python_seen);
} fsn_py_seen SEC(".maps");

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
	__u32 i = mixed(w->ident, w->py.code) >> 40 & (FSN_PYTHON_SEEN - 1);

	return bpf_map_lookup_elem(&fsn_py_seen, &i);
}

/*
 * A text of the code's: where it begins, how much is to be read, of how many characters of which size.
 * Of one that is longer than @room the begin, or with @tail the end.
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

/* How it is called. */
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

/* And its file; the size of its table of lines. */
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

/* The next of its table of lines goes into the hash; behind that, all else. */
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

/* Its number, a new one if there is room. */
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

/* What is new: for commands to read. */
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

#endif
