// SPDX-License-Identifier: BSD-2-Clause
// A stream as a trace that Perfetto and chrome://tracing open: the "JSON array format" of the
// trace event format, with complete events ("X"), whose nesting the viewer finds by time.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "show/stream_format.h"

/* A thread that has its name in the trace, or a process. */
struct seen {
	pid_t tid; /* of a process: -pid; 0: free */
	pid_t pid;
	char comm[16];
};

static void next_object(struct stream_page *p)
{
	out_str(p->out, p->any ? ",\n" : "[\n");
	p->any = true;
}

/* Microseconds, with nanoseconds behind the point. */
static void put_us(struct out *o, uint64_t ns)
{
	char *to;

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

static void put_ids(struct out *o, pid_t pid, pid_t tid)
{
	out_str(o, "\"pid\":");
	out_u64(o, pid);
	out_str(o, ",\"tid\":");
	out_u64(o, tid);
}

static void put_name(struct stream_page *p, const char *what, pid_t pid, pid_t tid,
	const char *name)
{
	next_object(p);
	out_str(p->out, "{\"ph\":\"M\",\"name\":\"");
	out_str(p->out, what);
	out_str(p->out, "\",");
	put_ids(p->out, pid, tid);
	out_str(p->out, ",\"args\":{\"name\":");
	out_json(p->out, name, strlen(name));
	out_str(p->out, "}}");
}

static struct seen *find_seen(const struct stream_page *p, pid_t tid)
{
	size_t i = (uint32_t)tid * 2654435761U & (p->seen_size - 1);

	while (p->seen[i].tid && p->seen[i].tid != tid)
		i = (i + 1) & (p->seen_size - 1);
	return &p->seen[i];
}

static bool grow_seen(struct stream_page *p)
{
	struct stream_page old = *p;

	p->seen_size = old.seen_size ? old.seen_size * 2 : 256;
	p->seen = calloc(p->seen_size, sizeof(*p->seen));
	if (!p->seen) {
		*p = old;
		return false;
	}
	for (size_t i = 0; i < old.seen_size; i++)
		if (old.seen[i].tid)
			*find_seen(p, old.seen[i].tid) = old.seen[i];
	free(old.seen);
	return true;
}

/* The name of the process is that of its first thread; a thread's changes. */
static void name_process(struct stream_page *p, const struct call *c)
{
	char path[32], comm[32];
	_cleanup_fclose_ FILE *f = NULL;

	snprintf(path, sizeof(path), "/proc/%d/comm", c->pid);
	f = fopen(path, "re");
	if (!f || !fgets(comm, sizeof(comm), f))
		snprintf(comm, sizeof(comm), "%s", c->comm);
	comm[strcspn(comm, "\n")] = '\0';
	put_name(p, "process_name", c->pid, c->pid, comm);
}

static void name_thread(struct stream_page *p, const struct call *c)
{
	struct seen *seen, *process;

	if (p->seen_cnt * 2 + 4 >= p->seen_size && !grow_seen(p)) {
		p->out->failed = true;
		return;
	}
	seen = find_seen(p, c->tid);
	if (seen->tid && seen->pid == c->pid && !strcmp(seen->comm, c->comm))
		return;
	p->seen_cnt += !seen->tid;
	seen->tid = c->tid;
	process = find_seen(p, -c->pid);
	if (!process->tid) {
		p->seen_cnt++;
		process->tid = -c->pid;
		name_process(p, c);
	}
	seen->pid = c->pid;
	snprintf(seen->comm, sizeof(seen->comm), "%s", c->comm);
	put_name(p, "thread_name", c->pid, c->tid, c->comm);
}

static void chrome_begin(struct stream_page *p)
{
	put_name(p, "process_name", 0, 0, "funcsnoop");
}

static void chrome_call(struct stream_page *p, const struct call *c, enum call_form form)
{
	struct out *o = p->out;

	name_thread(p, c);
	next_object(p);
	out_str(o, "{\"ph\":\"X\",\"name\":");
	out_json(o, c->function, strlen(c->function));
	out_str(o, ",\"cat\":\"");
	out_str(o, c->group);
	out_str(o, c->slow ? ",slow" : "");
	out_str(o, c->failed ? ",failed\"," : "\",");
	put_ids(o, c->pid, c->tid);
	out_str(o, ",\"ts\":");
	put_us(o, c->start_ns);
	out_str(o, ",\"dur\":");
	put_us(o, c->duration_ns);
	/* Names of colours that the viewers have for what needs a look. */
	if (c->failed || c->slow)
		out_str(o, c->failed ? ",\"cname\":\"terrible\"" : ",\"cname\":\"bad\"");
	out_str(o, ",\"args\":{\"args\":");
	call_args_json(o, c);
	out_char(o, ',');
	call_result_json(o, c);
	out_str(o, "}}");
}

static void chrome_lost(struct stream_page *p, const char *group, uint64_t cnt)
{
	next_object(p);
	out_str(p->out, "{\"ph\":\"M\",\"name\":\"lost\",\"pid\":0,\"args\":{\"group\":\"");
	out_str(p->out, group);
	out_str(p->out, "\",\"count\":");
	out_u64(p->out, cnt);
	out_str(p->out, "}}");
}

static void chrome_gap(struct stream_page *p, const char *group, uint64_t ns, uint64_t now_ns)
{
	next_object(p);
	out_str(p->out, "{\"ph\":\"X\",\"name\":\"nothing recorded: funcsnoop was stopped\",");
	put_ids(p->out, 0, 0);
	out_str(p->out, ",\"ts\":");
	put_us(p->out, now_ns - ns);
	out_str(p->out, ",\"dur\":");
	put_us(p->out, ns);
	out_str(p->out, ",\"args\":{\"group\":\"");
	out_str(p->out, group);
	out_str(p->out, "\"}}");
}

const struct stream_format stream_chrome = {
	.name = "chrome",
	.trailer = "\n]\n",
	.calls_only = true,
	.begin = chrome_begin,
	.call = chrome_call,
	.lost = chrome_lost,
	.gap = chrome_gap,
};

void stream_page_done(struct stream_page *p)
{
	free(p->seen);
	p->seen = NULL;
}
