// SPDX-License-Identifier: BSD-2-Clause
// Stacks as a profile for pprof: its profile.proto, compressed by nothing.
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "show/stacks.h"

/* Fields of its profile.proto, and of what these contain. */
enum {
	PROFILE_TYPE = 1,
	PROFILE_SAMPLE = 2,
	PROFILE_LOCATION = 4,
	PROFILE_FUNCTION = 5,
	PROFILE_STRING = 6,
	PROFILE_TIME = 9,
	PROFILE_DURATION = 10,
	PROFILE_DEFAULT = 14,
	TYPE_TYPE = 1,
	TYPE_UNIT = 2,
	SAMPLE_LOCATIONS = 1,
	SAMPLE_VALUES = 2,
	LOCATION_ID = 1,
	LOCATION_LINE = 4,
	LINE_FUNCTION = 1,
	FUNCTION_ID = 1,
	LINE_LINE = 2,
	FUNCTION_NAME = 2,
	FUNCTION_FILE = 4,
};
#define PROTO_BYTES 2 /* a length, and so many bytes */

static const char *const pprof_words[] = { "", "calls", "count", "time", "nanoseconds", "errors" };

struct pprof {
	struct out out, sample, ids;
	struct trie names; /* a node each: locations and functions are its number + 1 */
	const struct frame_name **about; /* each node's whose line is known, and whose name is p's */
	struct stats_row sum;
};

static void pprof_done(struct pprof *p)
{
	out_done(&p->out);
	out_done(&p->sample);
	out_done(&p->ids);
	for (uint32_t i = 0; i < p->names.cnt; i++)
		if (p->about[i])
			free((char *)p->names.nodes[i].name);
	trie_done(&p->names);
	free(p->about);
}

static void put_varint(struct out *o, uint64_t n)
{
	for (; n > 0x7f; n >>= 7)
		out_char(o, (char)(n | 0x80));
	out_char(o, (char)n);
}

static void put_field(struct out *o, unsigned int field, uint64_t n)
{
	put_varint(o, field << 3);
	put_varint(o, n);
}

static void put_bytes(struct out *o, unsigned int field, const char *bytes, size_t len)
{
	put_varint(o, field << 3 | PROTO_BYTES);
	put_varint(o, len);
	out_mem(o, bytes, len);
}

/* With the whole path: files of other folders are called the same. */
static char *place_name(const struct frame_name *n)
{
	char *name;

	return asprintf(&name, "%s %s:%u", n->text, n->source, n->line) < 0 ? NULL : name;
}

/* @about lives as long as @name. */
static int put_location(struct pprof *p, const char *name, const struct frame_name *about)
{
	const bool placed = about && about->line;
	_cleanup_free_ char *own = placed ? place_name(about) : NULL;
	uint32_t cnt = p->names.cnt;
	const struct frame_name **grown = array_grow(p->about, cnt, sizeof(struct frame_name *));
	const struct node *n;

	if (!grown)
		return -ENOMEM;
	p->about = grown;
	if (placed && !own)
		return -ENOMEM;
	n = trie_enter(&p->names, NO_NODE, placed ? own : name);
	if (!n)
		return -ENOMEM;
	if (p->names.cnt > cnt) {
		grown[cnt] = placed ? about : NULL;
		own = NULL;
	}
	put_varint(&p->ids, n - p->names.nodes + 1);
	return 0;
}

/* What was called is the innermost. */
static int put_sample(struct stacks *s, const struct stack *stack, const char *func,
	const struct stats_row *row, void *arg)
{
	struct pprof *p = arg;
	const char *cut = stack_cut(stack);
	int code;

	p->ids.len = p->sample.len = 0;
	code = func ? put_location(p, func, NULL) : 0;
	for (size_t i = 0; !code && i < stack->cnt; i++) {
		size_t cnt = 0;
		const struct frame_name *names =
			stacks_names(s, stack->frames[i], row->pid, &cnt);

		code = names ? 0 : -ENOMEM;
		for (size_t k = 0; !code && k < cnt; k++)
			code = put_location(p, names[k].text, &names[k]);
	}
	if (!code && cut)
		code = put_location(p, cut, NULL);
	put_bytes(&p->sample, SAMPLE_LOCATIONS, p->ids.buf, p->ids.len);
	p->ids.len = 0;
	put_varint(&p->ids, row->n.calls);
	put_varint(&p->ids, stack_value(row, FIGURE_TOTAL));
	put_varint(&p->ids, row->n.errors);
	put_bytes(&p->sample, SAMPLE_VALUES, p->ids.buf, p->ids.len);
	put_bytes(&p->out, PROFILE_SAMPLE, p->sample.buf, p->sample.len);
	stats_row_add(&p->sum, row);
	return code;
}

/* Calls in numbers, their time in ns, failed ones in numbers. */
static void put_types(struct pprof *p)
{
	static const unsigned char types[][2] = { { 1, 2 }, { 3, 4 }, { 5, 2 } };

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		p->ids.len = 0;
		put_field(&p->ids, TYPE_TYPE, types[i][0]);
		put_field(&p->ids, TYPE_UNIT, types[i][1]);
		put_bytes(&p->out, PROFILE_TYPE, p->ids.buf, p->ids.len);
	}
}

static void put_text(struct out *o, const char *text)
{
	_cleanup_free_ char *safe = text_escape(text);

	put_bytes(o, PROFILE_STRING, safe ? safe : "?", safe ? strlen(safe) : 1);
}

/* Two strings for each name: what it is called, and its file, which may be "". */
#define NAME_STRING(i) (2 * (i) + ARRAY_SIZE(pprof_words))

/* A place for each name: of no file it is known where what is called so lies. */
static void put_tables(struct pprof *p)
{
	for (uint32_t i = 0; i < p->names.cnt; i++) {
		p->ids.len = p->sample.len = 0;
		put_field(&p->ids, LINE_FUNCTION, i + 1);
		if (p->about[i])
			put_field(&p->ids, LINE_LINE, p->about[i]->line);
		put_field(&p->sample, LOCATION_ID, i + 1);
		put_bytes(&p->sample, LOCATION_LINE, p->ids.buf, p->ids.len);
		put_bytes(&p->out, PROFILE_LOCATION, p->sample.buf, p->sample.len);
		p->ids.len = 0;
		put_field(&p->ids, FUNCTION_ID, i + 1);
		put_field(&p->ids, FUNCTION_NAME, NAME_STRING(i));
		put_field(&p->ids, FUNCTION_FILE, NAME_STRING(i) + 1);
		put_bytes(&p->out, PROFILE_FUNCTION, p->ids.buf, p->ids.len);
	}
	for (size_t i = 0; i < ARRAY_SIZE(pprof_words); i++)
		put_bytes(&p->out, PROFILE_STRING, pprof_words[i], strlen(pprof_words[i]));
	for (uint32_t i = 0; i < p->names.cnt; i++) {
		const struct frame_name *about = p->about[i];

		put_text(&p->out, about ? about->name : p->names.nodes[i].name);
		put_text(&p->out, about ? about->source : "");
	}
}

/* RFC 1952: as it is, since readers want the form and not the smallness. */
static void put_gzip(FILE *f, const unsigned char *data, size_t size)
{
	static const unsigned char head[10] = { 0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255 };
	const unsigned char *end = data + size;
	uint32_t crc = ~0U, tail[2];

	fwrite(head, 1, sizeof(head), f);
	for (const unsigned char *at = data; at < end; at++) {
		crc ^= *at;
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
	}
	do {
		uint16_t len = end - data > UINT16_MAX ? UINT16_MAX : (uint16_t)(end - data);
		uint16_t sizes[2] = { htole16(len), htole16((uint16_t)~len) };

		fputc(data + len == end ? 1 : 0, f);
		fwrite(sizes, 1, sizeof(sizes), f);
		fwrite(data, 1, len, f);
		data += len;
	} while (data < end);
	tail[0] = htole32(~crc);
	tail[1] = htole32((uint32_t)size);
	fwrite(tail, 1, sizeof(tail), f);
}

int print_pprof(const struct report *r, FILE *f)
{
	__cleanup(pprof_done) struct pprof p = {};
	uint64_t elapsed_ns = 0;
	int code = 0;

	put_types(&p);
	for (size_t i = 0; !code && i < r->cnt; i++) {
		code = each_stack_row(&r->group[i], put_sample, &p);
		if (r->group[i].elapsed_ns > elapsed_ns)
			elapsed_ns = r->group[i].elapsed_ns;
	}
	put_tables(&p);
	put_field(&p.out, PROFILE_TIME, r->time_ns - elapsed_ns);
	put_field(&p.out, PROFILE_DURATION, elapsed_ns);
	put_field(&p.out, PROFILE_DEFAULT,
		stacks_figure(r) == FIGURE_CALLS || !stack_value(&p.sum, FIGURE_TOTAL) ? 1 : 3);
	if (code || p.out.failed || p.sample.failed || p.ids.failed)
		return code ? code : -ENOMEM;
	put_gzip(f, (const unsigned char *)p.out.buf, p.out.len);
	return 0;
}
