// SPDX-License-Identifier: BSD-2-Clause
// A stream as a trace of Perfetto, which can be joined with a trace of the whole system.
#include <limits.h>

#include "base/buffer.h"
#include "base/util.h"
#include "show/call.h"
#include "show/text.h"

/*
 * A trace is a sequence of packets (trace_packet.proto). A slice has two packets, one for each end,
 * and the reader sorts packets by time. So both are written when the call has returned. Slices of one
 * track must nest (track_event.proto), which calls of a thread do unless it switches stacks, as
 * coroutines do, or two groups probe one function.
 */

/* Field numbers of trace.proto and of its messages. */
enum {
	TRACE_PACKET = 1,
	PACKET_CLOCKS = 6,
	PACKET_TIME = 8,
	PACKET_SEQUENCE = 10,
	PACKET_EVENT = 11,
	PACKET_FLAGS = 13,
	PACKET_CLOCK = 58,
	PACKET_TRACK = 60,
	CLOCKS_CLOCK = 1,
	CLOCK_ID = 1,
	CLOCK_TIME = 2,
	TRACK_UUID = 1,
	TRACK_NAME = 2,
	TRACK_PROCESS = 3,
	TRACK_THREAD = 4,
	TRACK_PARENT = 5,
	TRACK_COUNTER = 8,
	PROCESS_PID = 1,
	PROCESS_NAME = 6,
	THREAD_PID = 1,
	THREAD_TID = 2,
	THREAD_NAME = 5,
	COUNTER_UNIT = 3,
	COUNTER_UNIT_NAME = 6,
	EVENT_DETAIL = 4,
	EVENT_TYPE = 9,
	EVENT_TRACK = 11,
	EVENT_CATEGORY = 22,
	EVENT_NAME = 23,
	EVENT_VALUE = 30,
	EVENT_REAL_VALUE = 44,
	DETAIL_BOOL = 2,
	DETAIL_U64 = 3,
	DETAIL_I64 = 4,
	DETAIL_DOUBLE = 5,
	DETAIL_TEXT = 6,
	DETAIL_NAME = 10,
	DETAIL_MEMBER = 11,
	DETAIL_ELEMENT = 12,
};

enum event_type { SLICE_BEGIN = 1, SLICE_END, INSTANT, COUNTER };

#define FLAG_CLEARED   1 /* the sequence starts here */
#define CLOCK_OF_CALLS 3 /* CLOCK_MONOTONIC, builtin_clock.proto */

/* --- packets --------------------------------------------------------------------------------- */

static size_t open_packet(struct stream_page *p)
{
	size_t at = proto_open(p->out, TRACE_PACKET);

	proto_u64(p->out, PACKET_SEQUENCE, p->sequence);
	return at;
}

/* Offsets of a packet that is being written, and of the message in it. */
struct open_message {
	size_t packet, message;
};

static struct open_message open_message(struct stream_page *p, unsigned int field)
{
	struct open_message m = { .packet = open_packet(p) };

	m.message = proto_open(p->out, field);
	return m;
}

static void close_message(struct stream_page *p, struct open_message m)
{
	proto_close(p->out, m.message);
	proto_close(p->out, m.packet);
}

/* Traces of several streams can be concatenated. */
static uint64_t new_uuid(struct stream_page *p)
{
	return (uint64_t)p->sequence << 32 | ++p->uuid_cnt;
}

/* Lets the reader convert times to those of other traces. */
static void put_clocks(struct stream_page *p)
{
	uint64_t before, boot, wall, after, least = UINT64_MAX, ns[3] = {};
	static const unsigned int ids[] = { CLOCK_OF_CALLS, 6, 1 };
	size_t at, clocks, clock;

	/* This process may have to wait between two readings: the closest ones count. */
	for (int i = 0; i < 10; i++) {
		before = clock_ns(CLOCK_MONOTONIC);
		boot = clock_ns(CLOCK_BOOTTIME);
		wall = clock_ns(CLOCK_REALTIME);
		after = clock_ns(CLOCK_MONOTONIC);
		if (after - before >= least)
			continue;
		least = after - before;
		ns[0] = before + least / 2;
		ns[1] = boot;
		ns[2] = wall;
	}
	at = open_packet(p);
	proto_u64(p->out, PACKET_FLAGS, FLAG_CLEARED);
	clocks = proto_open(p->out, PACKET_CLOCKS);
	for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
		clock = proto_open(p->out, CLOCKS_CLOCK);
		proto_u64(p->out, CLOCK_ID, ids[i]);
		proto_u64(p->out, CLOCK_TIME, ns[i]);
		proto_close(p->out, clock);
	}
	proto_close(p->out, clocks);
	proto_close(p->out, at);
}

/* Returns the number of bytes of the packet at @buf, with its own head. */
static size_t packet_len(const char *buf)
{
	size_t len = 0, at = 1, shift = 0;

	do
		len |= (size_t)(buf[at] & 0x7f) << shift;
	while (shift += 7, buf[at++] & 0x80);
	return at + len;
}

static size_t piece_of_packets(const char *buf, size_t len)
{
	size_t end = packet_len(buf), next;

	while (end < len) {
		next = end + packet_len(buf + end);
		if (next > PIPE_BUF)
			break;
		end = next;
	}
	return end;
}

/* --- text ------------------------------------------------------------------------------------ */

/* Copies a JSON string that out_json() wrote as field @field. Returns its end. */
static const char *put_string(struct out *o, unsigned int field, const char *json)
{
	size_t at = proto_open(o, field);
	char hex[5] = "";
	unsigned long c;

	for (json++; *json != '"'; json++) {
		if (*json != '\\') {
			out_char(o, *json);
			continue;
		}
		if (*++json != 'u') {
			out_char(o, *json);
			continue;
		}
		/* Only control characters, up to U+009F, are written in this way. */
		memcpy(hex, json + 1, 4);
		json += 4;
		c = strtoul(hex, NULL, 16);
		if (c > 0x7f)
			out_char(o, (char)(0xc0 | c >> 6));
		out_char(o, (char)(c > 0x7f ? 0x80 | (c & 0x3f) : c));
	}
	proto_close(o, at);
	return json + 1;
}

/* Adds text of other programs, which may be no UTF-8. */
static void put_text(struct stream_page *p, unsigned int field, const char *text)
{
	p->details.len = 0;
	out_json(&p->details, text, SIZE_MAX);
	put_string(p->out, field, p->details.buf);
}

/* --- tracks and their lanes ------------------------------------------------------------------ */

#define SPANS_MAX 65536

/* Slices that nest, of which only the outermost are remembered: they do not overlap. */
struct lane {
	uint64_t uuid;
	struct span {
		uint64_t start, end;
	} *spans;
	size_t cnt;
	uint64_t forgotten; /* end of the last span that is not remembered */
};

void lanes_free(struct track *track)
{
	for (size_t i = 0; i < track->lane_cnt; i++)
		free(track->lanes[i].spans);
	free(track->lanes);
}

/*
 * Adds *@s if it nests with the slices of the lane, otherwise returns false. An inner slice is written
 * first and packets of the same time keep their order, so it must start later than the outer one. The
 * end of the outer one becomes that of the inner one, up to @late later: its duration lacks the
 * overhead of the probes inside.
 */
static bool lane_take(struct lane *l, struct span *s, uint64_t late)
{
	size_t to = l->cnt, from;
	uint64_t end = s->end;

	if (s->start < l->forgotten)
		return false;
	while (to && l->spans[to - 1].start > s->end + late)
		to--;
	for (from = to; from && l->spans[from - 1].start > s->start; from--) {
		if (l->spans[from - 1].end > s->end + late)
			return false;
		if (l->spans[from - 1].end > end)
			end = l->spans[from - 1].end;
	}
	if (from && l->spans[from - 1].end > s->start)
		return false;
	s->end = end;
	if (from == to && l->cnt == SPANS_MAX) {
		l->cnt /= 2;
		l->forgotten = l->spans[l->cnt - 1].end;
		memmove(l->spans, l->spans + l->cnt, l->cnt * sizeof(*s));
		return lane_take(l, s, 0);
	}
	if (from == to)
		l->spans = array_grow(l->spans, l->cnt, sizeof(*s));
	memmove(l->spans + from + 1, l->spans + to, (l->cnt - to) * sizeof(*s));
	l->spans[from] = *s;
	l->cnt -= to - from;
	l->cnt++;
	return true;
}

static struct lane *add_lane(struct stream_page *p, struct track *track)
{
	struct lane *l = array_add(track->lanes, track->lane_cnt);

	*l = (struct lane) { .uuid = new_uuid(p) };
	return l;
}

static struct span span_of(const struct call *call)
{
	return (struct span) { call->start,
		call->start + (call_is_timed(call) ? call->duration : 0) };
}

uint64_t lane_end(struct stream_page *p, struct track *track, const struct shown_call *c)
{
	struct span s = span_of(c->call);

	if (!track->lane_cnt)
		add_lane(p, track);
	lane_take(track->lanes, &s, c->late_ns);
	return s.end;
}

/* Starts the descriptor of a lane; @parent is 0 if it has none. */
static struct open_message open_track(struct stream_page *p, uint64_t uuid, uint64_t parent)
{
	struct open_message m = open_message(p, PACKET_TRACK);

	proto_u64(p->out, TRACK_UUID, uuid);
	if (parent)
		proto_u64(p->out, TRACK_PARENT, parent);
	return m;
}

static void put_plain_track(struct stream_page *p, uint64_t uuid, uint64_t parent, const char *name)
{
	struct open_message m = open_track(p, uuid, parent);

	put_text(p, TRACK_NAME, name);
	close_message(p, m);
}

static void put_process(struct stream_page *p, const struct track *process)
{
	struct open_message m = open_track(p, process->lanes->uuid, 0);
	size_t at = proto_open(p->out, TRACK_PROCESS);

	proto_u64(p->out, PROCESS_PID, (uint64_t)process->pid);
	put_text(p, PROCESS_NAME, process->name);
	proto_close(p->out, at);
	close_message(p, m);
}

static void put_thread(struct stream_page *p, const struct track *thread, uint64_t process)
{
	struct open_message m = open_track(p, thread->lanes->uuid, process);
	size_t at = proto_open(p->out, TRACK_THREAD);

	proto_u64(p->out, THREAD_PID, (uint64_t)thread->pid);
	proto_u64(p->out, THREAD_TID, (uint64_t)thread->tid);
	put_text(p, THREAD_NAME, thread->name);
	proto_close(p->out, at);
	close_message(p, m);
}

/* Returns the track of a call, which is described before its first event. */
static struct track *described_track(struct stream_page *p, const struct shown_call *c)
{
	bool is_new;
	struct track *track = track_of_call(p, c, &is_new), *process;

	if (!is_new)
		return track;
	process = track_of_process(p, c->call, &is_new);
	if (is_new) {
		add_lane(p, process);
		put_process(p, process);
	}
	if (!track->lane_cnt)
		add_lane(p, track);
	if (call_on_stream(c))
		put_plain_track(p, track->lanes->uuid, process->lanes->uuid, track->name);
	else
		put_thread(p, track, process->lanes->uuid);
	return track;
}

/*
 * Returns the first lane in which the slice nests, as lane_take(); viewers show lanes of one name as
 * one track.
 */
static uint64_t lane_of(struct stream_page *p, struct track *track, struct span *s, uint64_t late)
{
	struct lane *l;

	for (size_t i = 0; i < track->lane_cnt; i++)
		if (lane_take(&track->lanes[i], s, late))
			return track->lanes[i].uuid;
	l = add_lane(p, track);
	put_plain_track(p, l->uuid, track->lanes->uuid, track->name);
	lane_take(l, s, late);
	return l->uuid;
}

/* --- details of a call ----------------------------------------------------------------------- */

static const char *put_details(struct out *o, unsigned int field, const char *json);

static const char *put_number(struct out *o, const char *json)
{
	size_t len = strspn(json, "+-.0123456789eE");

	if (memchr(json, '.', len) || memchr(json, 'e', len))
		proto_double(o, DETAIL_DOUBLE, strtod(json, NULL));
	else if (*json == '-')
		proto_u64(o, DETAIL_I64, (uint64_t)strtoll(json, NULL, 10));
	else
		proto_u64(o, DETAIL_U64, strtoull(json, NULL, 10));
	return json + len;
}

/* Adds the value of an annotation. Returns the end of the JSON value. Unknown values add nothing. */
static const char *put_value(struct out *o, const char *json)
{
	switch (*json) {
	case '{':
		return put_details(o, DETAIL_MEMBER, json);
	case '[':
		return put_details(o, DETAIL_ELEMENT, json);
	case '"':
		return put_string(o, DETAIL_TEXT, json);
	case 't':
	case 'f':
		proto_u64(o, DETAIL_BOOL, *json == 't');
		return json + (*json == 't' ? sizeof("true") : sizeof("false")) - 1;
	case 'n':
		return json + sizeof("null") - 1;
	default:
		return put_number(o, json);
	}
}

/*
 * Adds each member or element of an object or array of call_details_json() as an annotation of the
 * same name. Returns the end of the JSON value.
 */
static const char *put_details(struct out *o, unsigned int field, const char *json)
{
	const char end = *json == '{' ? '}' : ']';
	size_t start, at, empty;

	for (json++; *json != end; json += *json == ',') {
		start = o->len;
		at = proto_open(o, field);
		if (end == '}')
			json = put_string(o, DETAIL_NAME, json) + 1;
		empty = o->len;
		json = put_value(o, json);
		if (o->len == empty)
			o->len = start;
		else
			proto_close(o, at);
	}
	return json + 1;
}

/* --- events ---------------------------------------------------------------------------------- */

static struct open_message begin_event(
	struct stream_page *p, enum event_type type, uint64_t lane, uint64_t ns)
{
	struct open_message e = { .packet = open_packet(p) };

	proto_u64(p->out, PACKET_TIME, ns);
	proto_u64(p->out, PACKET_CLOCK, CLOCK_OF_CALLS);
	e.message = proto_open(p->out, PACKET_EVENT);
	proto_u64(p->out, EVENT_TYPE, type);
	proto_u64(p->out, EVENT_TRACK, lane);
	return e;
}

static void perfetto_call(struct stream_page *p, const struct shown_call *c, enum call_form form)
{
	const struct call *call = c->call;
	const char *kernel = call_kernel(c);
	const bool timed = call_is_timed(call);
	struct track *track = described_track(p, c);
	struct span s = span_of(call);
	uint64_t lane = timed ? lane_of(p, track, &s, c->late_ns) : track->lanes->uuid;
	struct open_message e = begin_event(p, timed ? SLICE_BEGIN : INSTANT, lane, s.start);
	struct json j = { .out = &p->details };

	put_text(p, EVENT_NAME, kernel ? kernel : c->function);
	put_text(p, EVENT_CATEGORY, c->group);
	if (call->flags & FSN_CALL_SLOW)
		put_text(p, EVENT_CATEGORY, "slow");
	if (call->flags & FSN_CALL_FAILED)
		put_text(p, EVENT_CATEGORY, "failed");
	p->details.len = 0;
	json_open(&j, '{');
	call_details_json(&j, c);
	json_close(&j, '}');
	put_details(p->out, EVENT_DETAIL, p->details.buf);
	close_message(p, e);
	if (timed)
		close_message(p, begin_event(p, SLICE_END, lane, s.end));
}

/* Adds an event of funcsnoop itself about a group. */
static void put_own(struct stream_page *p, enum event_type type, uint64_t lane, uint64_t ns,
	const char *name, const char *group, uint64_t lost)
{
	struct open_message e = begin_event(p, type, lane, ns);
	struct json j = { .out = &p->details };

	proto_str(p->out, EVENT_NAME, name);
	p->details.len = 0;
	json_open(&j, '{');
	json_set_str(&j, "group", group);
	if (lost)
		json_set_u64(&j, "count", lost);
	json_close(&j, '}');
	put_details(p->out, EVENT_DETAIL, p->details.buf);
	close_message(p, e);
}

static void perfetto_lost(struct stream_page *p, const char *group, uint64_t cnt)
{
	put_own(p, INSTANT, p->own.lanes->uuid, clock_ns(CLOCK_MONOTONIC), "calls lost", group, cnt);
}

static void perfetto_gap(struct stream_page *p, const char *group, uint64_t ns, uint64_t now_ns)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	uint64_t lane = lane_of(p, &p->own, &(struct span) { now - ns, now }, 0);

	put_own(p, SLICE_BEGIN, lane, now - ns, "nothing recorded: funcsnoop was stopped", group, 0);
	close_message(p, begin_event(p, SLICE_END, lane, now));
}

/* --- counters -------------------------------------------------------------------------------- */

static void put_unit(struct stream_page *p, enum figure_id id)
{
	static const unsigned char units[] = { [UNIT_COUNT] = 2, [UNIT_NS] = 1, [UNIT_BYTES] = 3 };
	size_t at = proto_open(p->out, TRACK_COUNTER);
	char name[TEXT_NUM_LEN];

	if (figures[id].unit == UNIT_RATE) {
		snprintf(name, sizeof(name), "%s/s", figures[id].word);
		proto_str(p->out, COUNTER_UNIT_NAME, name);
	} else if (!figure_is_real(id)) {
		proto_u64(p->out, COUNTER_UNIT, units[figures[id].unit]);
	}
	proto_close(p->out, at);
}

/* A value holds until the next one. */
static void perfetto_counter(struct stream_page *p, struct counter *c, const char *group,
	const char *function, enum figure_id id, uint64_t ns)
{
	_cleanup_free_ char *name = NULL;
	struct open_message m;
	double x;

	if (!c->track) {
		c->track = new_uuid(p);
		name = xasprintf("%s: %s %s", group, function, figures[id].key);
		m = open_track(p, c->track, p->own.lanes->uuid);
		put_text(p, TRACK_NAME, name);
		put_unit(p, id);
		close_message(p, m);
	}
	m = begin_event(p, COUNTER, c->track, ns);
	if (figure_is_real(id)) {
		memcpy(&x, &c->value, sizeof(x));
		proto_double(p->out, EVENT_REAL_VALUE, x);
	} else {
		proto_u64(p->out, EVENT_VALUE, c->value);
	}
	close_message(p, m);
}

static void perfetto_begin(struct stream_page *p)
{
	/* The numbers of the tracing service's own sequences are small. */
	p->sequence = 0x80000000 |
		((uint32_t)(clock_ns(CLOCK_REALTIME) / 1000) ^ (uint32_t)getpid() << 20);
	put_clocks(p);
	snprintf(p->own.name, sizeof(p->own.name), "funcsnoop");
	put_plain_track(p, add_lane(p, &p->own)->uuid, 0, p->own.name);
}

const struct stream_format stream_perfetto = {
	.name = "perfetto",
	.piece = piece_of_packets,
	.calls_only = true,
	.begin = perfetto_begin,
	.call = perfetto_call,
	.lost = perfetto_lost,
	.gap = perfetto_gap,
	.counter = perfetto_counter,
};
