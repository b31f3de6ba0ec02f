// SPDX-License-Identifier: BSD-2-Clause
// A stream for people, a line for each call; as JSON lines; and as a trace.
#include "base/util.h"
#include "proc/proc.h"
#include "show/call.h"
#include "show/text.h"

#define RED    "31"
#define YELLOW "33"

static void begin_color(struct stream_page *p, const char *sgr)
{
	if (!p->color || !sgr)
		return;
	out_str(p->out, "\033[");
	out_str(p->out, sgr);
	out_char(p->out, 'm');
}

static void end_color(struct stream_page *p, const char *sgr)
{
	if (p->color && sgr)
		out_str(p->out, "\033[0m");
}

/* Local time of day, to the microsecond. */
static void put_time(struct stream_page *p, uint64_t realtime_ns)
{
	uint64_t second = realtime_ns / 1000000000, us = realtime_ns / 1000 % 1000000;
	time_t t = second;
	struct tm tm;
	char *to;

	if (second != p->second || !p->clock[0]) {
		p->second = second;
		localtime_r(&t, &tm);
		strftime(p->clock, sizeof(p->clock), "%H:%M:%S.", &tm);
	}
	out_str(p->out, p->clock);
	to = out_room(p->out, 6);
	if (!to)
		return;
	for (int i = 5; i >= 0; i--, us /= 10)
		to[i] = '0' + us % 10;
	p->out->len += 6;
}

/* A column as wide as the widest until now. */
static void put_padded(struct stream_page *p, size_t from, unsigned int *width)
{
	size_t len = p->out->len - from;

	if (len > *width)
		*width = len;
	out_pad(p->out, from, *width);
	out_char(p->out, ' ');
}

static void put_who(struct stream_page *p, const struct shown_call *c)
{
	size_t from = p->out->len;

	out_escaped(p->out, c->call->comm, strlen(c->call->comm));
	put_padded(p, from, &p->comm_width);
	from = p->out->len;
	out_u64(p->out, c->call->pid);
	out_char(p->out, '/');
	out_u64(p->out, c->call->tid);
	put_padded(p, from, &p->id_width);
}

static const char *color_of(const struct shown_call *c)
{
	if (c->call->flags & FSN_CALL_FAILED)
		return RED;
	return c->call->flags & FSN_CALL_SLOW ? YELLOW : NULL;
}

void stream_line(struct out *o, const struct shown_call *c, enum call_form form)
{
	char duration[TEXT_NUM_LEN];

	out_str(o, form == CALL_ENTRY ? "-> " : form == CALL_EXIT ? "<- " : "");
	out_escaped(o, c->title, strlen(c->title));
	if (form != CALL_EXIT) {
		out_char(o, '(');
		call_args_text(o, c);
		out_char(o, ')');
		call_line_keys_text(o, c);
	}
	if (form == CALL_ENTRY)
		return;
	if (!c->types->has_ret || c->types->ret.kind != TYPE_VOID) {
		out_str(o, " = ");
		call_result_text(o, c);
	}
	if (call_is_timed(c->call)) {
		out_str(o, c->call->duration < c->noise_ns ? " <~" : " <");
		out_str(o, text_duration(c->call->duration, duration));
		if (call_is_split(c->call) && c->call->duration)
			out_str(o, ", ");
		call_split_text(o, c->call);
		out_char(o, '>');
	}
	if (c->call->flags & FSN_CALL_SLOW)
		out_str(o, " SLOW");
	if (c->call->flags & FSN_CALL_FAILED)
		out_str(o, " FAILED");
}

static void text_begin(struct stream_page *p)
{
	p->comm_width = sizeof("COMMAND") - 1;
	p->id_width = sizeof("PID/TID") - 1;
	out_str(p->out, "TIME            COMMAND PID/TID CALL\n");
}

static void text_call(struct stream_page *p, const struct shown_call *c, enum call_form form)
{
	const char *color = color_of(c);

	put_time(p, call_time(c, form) + c->ahead_ns);
	out_char(p->out, ' ');
	put_who(p, c);
	begin_color(p, color);
	stream_line(p->out, c, form);
	end_color(p, color);
	out_char(p->out, '\n');
}

static void text_lost(struct stream_page *p, const char *group, uint64_t cnt)
{
	begin_color(p, RED);
	out_printf(p->out, "-- %llu call%s of %s lost --", (unsigned long long)cnt,
		cnt == 1 ? "" : "s", group);
	end_color(p, RED);
	out_char(p->out, '\n');
}

static void text_gap(struct stream_page *p, const char *group, uint64_t ns, uint64_t now_ns)
{
	char duration[TEXT_NUM_LEN];

	begin_color(p, RED);
	out_printf(p->out, "-- stopped: nothing of %s was recorded for %s --", group,
		text_duration(ns, duration));
	end_color(p, RED);
	out_char(p->out, '\n');
}

const struct stream_format stream_text = {
	.name = "text",
	.begin = text_begin,
	.call = text_call,
	.lost = text_lost,
	.gap = text_gap,
};

/* --- JSON lines ------------------------------------------------------------------------------- */

static void json_call(struct stream_page *p, const struct shown_call *c, enum call_form form)
{
	struct json j = { .out = p->out };

	call_json(&j, c, form);
	out_char(p->out, '\n');
}

static void json_missing(struct stream_page *p, const char *type, const char *group,
	const char *key, uint64_t value)
{
	struct json j = { .out = p->out };

	json_open(&j, '{');
	json_set_str(&j, "type", type);
	json_set_str(&j, "group", group);
	json_set_u64(&j, key, value);
	json_close(&j, '}');
	out_char(p->out, '\n');
}

static void json_lost(struct stream_page *p, const char *group, uint64_t cnt)
{
	json_missing(p, "lost", group, "count", cnt);
}

static void json_gap(struct stream_page *p, const char *group, uint64_t ns, uint64_t now_ns)
{
	json_missing(p, "gap", group, "duration_ns", ns);
}

const struct stream_format stream_json = {
	.name = "json",
	.call = json_call,
	.lost = json_lost,
	.gap = json_gap,
};

/* --- tracks of a trace --------------------------------------------------------------------- */

#define PROCESS   (-1)
#define GPU_TRACK 0x40000000 /* beyond all threads' numbers */

/* Returns the place of the track, which has none yet if it holds NULL. */
static struct track **find_track(const struct stream_page *p, pid_t pid, pid_t tid)
{
	size_t i = ((uint32_t)tid ^ (uint32_t)pid * 40503U) * 2654435761U & (p->tracks_size - 1);

	while (p->tracks[i] && (p->tracks[i]->pid != pid || p->tracks[i]->tid != tid))
		i = (i + 1) & (p->tracks_size - 1);
	return &p->tracks[i];
}

static void grow_tracks(struct stream_page *p)
{
	struct stream_page old = *p;

	p->tracks_size = old.tracks_size ? old.tracks_size * 2 : 256;
	p->tracks = xcalloc(p->tracks_size, sizeof(struct track *));
	for (size_t i = 0; i < old.tracks_size; i++)
		if (old.tracks[i])
			*find_track(p, old.tracks[i]->pid, old.tracks[i]->tid) = old.tracks[i];
	free(old.tracks);
}

static struct track *enter_track(struct stream_page *p, pid_t pid, pid_t tid)
{
	struct track **track;

	if (p->track_cnt * 2 >= p->tracks_size)
		grow_tracks(p);
	track = find_track(p, pid, tid);
	if (!*track) {
		p->track_cnt++;
		*track = xcalloc(1, sizeof(**track));
		(*track)->pid = pid;
		(*track)->tid = tid;
	}
	return *track;
}

/* Returns true if the track did not have this name. */
static bool name_track(struct track *track, const char *name)
{
	if (track->is_named && !strcmp(track->name, name))
		return false;
	track->is_named = true;
	snprintf(track->name, sizeof(track->name), "%s", name);
	return true;
}

struct track *track_of_process(struct stream_page *p, const struct call *call, bool *ret_new)
{
	pid_t pid = (pid_t)call->pid;
	struct track *track = enter_track(p, pid, PROCESS);
	char comm[PROC_COMM_LEN];

	*ret_new = !track->is_named &&
		name_track(track, proc_comm(pid, pid, comm) ? comm : call->comm);
	return track;
}

struct track *track_of_call(struct stream_page *p, const struct shown_call *c, bool *ret_new)
{
	const struct call *call = c->call;
	uint64_t device = call->args.arg[FSN_GPU_ARG_DEVICE], stream = call->args.arg[FSN_GPU_ARG_STREAM];
	struct track *track;
	char gpu[TRACK_NAME_LEN];

	if (!call_on_stream(c)) {
		track = enter_track(p, (pid_t)call->pid, (pid_t)(c->on_gpu ? device : call->tid));
		*ret_new = name_track(track, call->comm);
		return track;
	}
	track = enter_track(p, (pid_t)call->pid,
		(pid_t)(GPU_TRACK | (device & 0xff) << 20 | (stream & 0xfffff)));
	snprintf(gpu, sizeof(gpu), "GPU %u stream %u", (unsigned int)device, (unsigned int)stream);
	*ret_new = name_track(track, gpu);
	return track;
}

/* --- chrome: a trace in JSON -------------------------------------------------------------- */

/*
 * A stream as a trace that Perfetto and chrome://tracing open: the "JSON array format" of the
 * trace event format, with complete events ("X"), whose nesting the viewer finds by time. Times
 * are those of the wall clock, so that a trace can be laid over those of others.
 */

/*
 * Starts an object on a line of its own, which end_object() ends. So the viewers can open a
 * truncated trace, and other processes can write to the same file.
 */
static struct json next_object(struct stream_page *p)
{
	struct json j = { .out = p->out };

	out_str(p->out, p->any ? "," : "[\n");
	p->any = true;
	json_open(&j, '{');
	return j;
}

static void end_object(struct json *j)
{
	json_close(j, '}');
	out_char(j->out, '\n');
}

/* Microseconds, with three decimals for nanoseconds. */
static void set_us(struct json *j, const char *key, uint64_t ns)
{
	struct out *o = j->out;
	char *to;

	json_key(j, key);
	json_value(j);
	out_u64(o, ns / 1000);
	to = out_room(o, 4);
	if (!to)
		return;
	to[0] = '.';
	to[1] = '0' + ns / 100 % 10;
	to[2] = '0' + ns / 10 % 10;
	to[3] = '0' + ns % 10;
	o->len += 4;
}

static void set_ids(struct json *j, pid_t pid, pid_t tid)
{
	json_set_u64(j, "pid", pid);
	json_set_u64(j, "tid", tid);
}

static void put_name(struct stream_page *p, const char *what, pid_t pid, pid_t tid,
	const char *name)
{
	struct json j = next_object(p);

	json_set_str(&j, "ph", "M");
	json_set_str(&j, "name", what);
	set_ids(&j, pid, tid);
	json_set_open(&j, "args", '{');
	json_set_str(&j, "name", name);
	json_close(&j, '}');
	end_object(&j);
}

/* Returns the thread that the trace shows the call in; names it and its process first. */
static struct track *thread_of(struct stream_page *p, const struct shown_call *c)
{
	bool is_new;
	struct track *thread = track_of_call(p, c, &is_new), *process;

	if (!is_new)
		return thread;
	process = track_of_process(p, c->call, &is_new);
	if (is_new)
		put_name(p, "process_name", process->pid, process->pid, process->name);
	put_name(p, "thread_name", thread->pid, thread->tid, thread->name);
	return thread;
}

static void chrome_begin(struct stream_page *p)
{
	put_name(p, "process_name", 0, 0, "funcsnoop");
}

static void set_category(struct json *j, const struct shown_call *c)
{
	json_key(j, "cat");
	json_value(j);
	out_char(j->out, '"');
	out_str(j->out, c->group);
	out_str(j->out, c->call->flags & FSN_CALL_SLOW ? ",slow" : "");
	out_str(j->out, c->call->flags & FSN_CALL_FAILED ? ",failed\"" : "\"");
}

static void chrome_call(struct stream_page *p, const struct shown_call *c, enum call_form form)
{
	const struct call *call = c->call;
	const char *kernel = call_kernel(c);
	bool timed = call_is_timed(call);
	struct track *thread = thread_of(p, c);
	struct json j = next_object(p);

	json_set_str(&j, "ph", timed ? "X" : "i");
	if (!timed)
		json_set_str(&j, "s", "t");
	json_set_str(&j, "name", kernel ? kernel : c->function);
	set_category(&j, c);
	set_ids(&j, call->pid, thread->tid);
	set_us(&j, "ts", call->start + c->ahead_ns);
	if (timed)
		set_us(&j, "dur", lane_end(p, thread, c) - call->start);
	/* Colour names of the trace viewers for failed and slow events. */
	if (call->flags & (FSN_CALL_FAILED | FSN_CALL_SLOW))
		json_set_str(&j, "cname", call->flags & FSN_CALL_FAILED ? "terrible" : "bad");
	json_set_open(&j, "args", '{');
	call_details_json(&j, c);
	json_close(&j, '}');
	end_object(&j);
}

static void chrome_lost(struct stream_page *p, const char *group, uint64_t cnt)
{
	struct json j = next_object(p);

	json_set_str(&j, "ph", "M");
	json_set_str(&j, "name", "lost");
	json_set_u64(&j, "pid", 0);
	json_set_open(&j, "args", '{');
	json_set_str(&j, "group", group);
	json_set_u64(&j, "count", cnt);
	json_close(&j, '}');
	end_object(&j);
}

static void chrome_gap(struct stream_page *p, const char *group, uint64_t ns, uint64_t now_ns)
{
	struct json j = next_object(p);

	json_set_str(&j, "ph", "X");
	json_set_str(&j, "name", "nothing recorded: funcsnoop was stopped");
	set_ids(&j, 0, 0);
	set_us(&j, "ts", now_ns - ns);
	set_us(&j, "dur", ns);
	json_set_open(&j, "args", '{');
	json_set_str(&j, "group", group);
	json_close(&j, '}');
	end_object(&j);
}

static const struct stream_format stream_chrome = {
	.name = "chrome",
	.trailer = "]\n",
	.calls_only = true,
	.begin = chrome_begin,
	.call = chrome_call,
	.lost = chrome_lost,
	.gap = chrome_gap,
};

const struct stream_format *stream_format_find(const char *name)
{
	static const struct stream_format *const all[] = { &stream_text, &stream_json,
		&stream_chrome, &stream_perfetto };

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		if (!strcmp(all[i]->name, name))
			return all[i];
	return NULL;
}

void stream_page_done(struct stream_page *p)
{
	for (size_t i = 0; i < p->tracks_size; i++) {
		if (p->tracks[i])
			lanes_free(p->tracks[i]);
		free(p->tracks[i]);
	}
	free(p->tracks);
	lanes_free(&p->own);
	out_done(&p->details);
}
