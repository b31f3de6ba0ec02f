// SPDX-License-Identifier: BSD-2-Clause
// funcsnoop stack: where each thread of a process is now.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "attach/attach.h"
#include "base/alloc.h"
#include "base/buffer.h"
#include "cli/options.h"
#include "group/stacks.h"
#include "internal.h"
#include "kernel/trace.h"
#include "proc/proc.h"
#include "show/stacks.h"
#include "show/text.h"

#define TRIES    20        /* until a thread stays where it is, or gets a CPU */
#define TRY_NS   1000000   /* between two of them */
#define RETRY_NS 100000000 /* for those of all threads, after the first */
#define NAMED    4         /* of threads with the same stack */

/* --- stacks ------------------------------------------------------------------------------------- */

struct thread_stack thread_stack_read(struct thread_stacks *threads, pid_t pid, pid_t tid)
{
	struct thread_stack stack;

	if (thread_stacks_get(threads, pid, tid, &stack) == -EBUSY)
		stack.runs = true;
	return stack;
}

void thread_stack_json(struct json *j, const struct thread_stack *stack, bool lines)
{
	json_set_open(j, "stack", '{');
	if (!stack->frames) {
		json_set_null(j, "frames");
	} else {
		json_set_open(j, "frames", '[');
		for (size_t i = 0; i < stack->cnt; i++) {
			const struct thread_frame *f = &stack->frames[i];

			json_open(j, '{');
			json_set_str(j, "name", f->name);
			json_set_str(j, "file", f->file);
			if (f->is_source)
				json_set_null(j, "offset");
			else
				json_set_hex(j, "offset", f->offset);
			if (lines)
				json_set_str(j, "source", f->source);
			json_set_u64_if(j, "line", f->line, f->line);
			if (lines)
				json_set_bool(j, "inlined", f->inlined);
			json_close(j, '}');
		}
		json_close(j, ']');
	}
	json_set_str(j, "end",
		stack->frames         ? stack_end_name(stack->end)
			: stack->runs ? "running"
				      : NULL);
	json_close(j, '}');
}

/* " (/app/train.py:42)" */
static void add_source_text(struct out *o, const struct thread_frame *f)
{
	out_str(o, " (");
	out_escaped(o, f->file, strlen(f->file));
	if (f->line)
		out_printf(o, ":%u", f->line);
	out_char(o, ')');
}

static void add_frame_text(struct out *o, const struct thread_frame *f)
{
	const char *text = f->text ? f->text : f->name;

	out_escaped(o, text, strlen(text));
	if (f->is_source)
		add_source_text(o, f);
	out_char(o, '\n');
}

void thread_stack_text(struct out *o, const struct thread_stack *stack)
{
	const struct stack end = { .end = stack->end };

	for (size_t i = 0; stack->frames && i < stack->cnt; i++) {
		out_str(o, "    ");
		add_frame_text(o, &stack->frames[i]);
	}
	if (stack->frames && stack_cut(&end))
		out_printf(o, "    %s\n", stack_cut(&end));
}

/* --- threads ------------------------------------------------------------------------------------ */

struct thread {
	pid_t tid;
	char comm[PROC_COMM_LEN];
	struct blocked blocked;
	const char *call;  /* the system call's name; NULL: none, or not known */
	struct out kernel; /* names of its frames in the kernel, each with a newline */
	struct out does;   /* "waits in futex" */
	struct out stack;  /* a line for each frame, for readers; with --format the outermost first */
	uint64_t slept_ns; /* 0: not known */
	bool unknown; /* where it runs */
	bool told;
};

static void threads_free(struct thread *threads, size_t cnt)
{
	for (size_t i = 0; threads && i < cnt; i++) {
		out_done(&threads[i].kernel);
		out_done(&threads[i].does);
		out_done(&threads[i].stack);
	}
	free(threads);
}

/* "[<0>] futex_wait_queue+0x60/0x90" */
static void read_kernel(pid_t pid, struct thread *t)
{
	char path[64], line[256], name[200];
	_cleanup_fclose_ FILE *f = NULL;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/stack", pid, t->tid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "[<%*x>] %199[^+\n]", name) != 1)
			continue;
		out_printf(&t->kernel, "%s\n", name);
	}
}

static void wait_text(struct out *o, pid_t pid, const struct thread *t)
{
	const struct blocked *b = &t->blocked;
	char comm[PROC_COMM_LEN];

	if (b->state == 'R') {
		out_str(o, "runs");
		return;
	}
	out_str(o, b->state == 'T' || b->state == 't' ? "stopped" :
			b->state == 'D'		      ? "waits, uninterruptible," :
							"waits");
	if (!t->call)
		return;
	out_printf(o, " in %s", t->call);
	if (*b->file) {
		out_str(o, " of ");
		out_escaped(o, b->file, strlen(b->file));
	} else if (b->number == SYS_futex) {
		out_printf(o, "%s at 0x%llx", b->owner ? ": mutex" : "",
			(unsigned long long)b->arg[0]);
	} else if (b->number == SYS_wait4 && (int)b->arg[0] > 0) {
		out_printf(o, " for process %d", (int)b->arg[0]);
	}
	if (b->owner) {
		proc_comm(pid, b->owner, comm);
		out_printf(o, " held by %d ", b->owner);
		out_escaped(o, comm, strlen(comm));
	}
}

static void thread_json(struct json *j, const struct options *o, pid_t pid, const struct thread *t,
	const struct thread_stack *stack)
{
	char state[2] = { t->blocked.state };

	json_open(j, '{');
	json_set_i64(j, "pid", pid);
	json_set_i64(j, "tid", t->tid);
	json_set_str(j, "comm", t->comm);
	json_set_str(j, "state", state);
	json_set_str(j, "syscall", t->call);
	json_set_str(j, "file", *t->blocked.file ? t->blocked.file : NULL);
	json_set_u64_if(j, "waited_ns", t->slept_ns, t->slept_ns);
	json_set_u64_if(j, "lock_owner", t->blocked.owner, (uint64_t)t->blocked.owner);
	json_set_open(j, "kernel", '[');
	for (size_t at = 0, len; at < t->kernel.len; at += len + 1) {
		char name[200];

		len = (const char *)memchr(t->kernel.buf + at, '\n', t->kernel.len - at) -
			(t->kernel.buf + at);
		snprintf(name, sizeof(name), "%.*s", (int)len, t->kernel.buf + at);
		json_str(j, name);
	}
	json_close(j, ']');
	thread_stack_json(j, stack, o->list.lines);
	json_close(j, '}');
}

static void kernel_text(struct out *o, const struct out *kernel)
{
	for (size_t i = 0; i < kernel->len; i++) {
		if (!i || kernel->buf[i - 1] == '\n')
			out_str(o, "    ");
		if (kernel->buf[i] == '\n')
			out_str(o, "_[k]");
		out_char(o, kernel->buf[i]);
	}
}

/* "worker\n_start\nmain\nread\npipe_read_[k]\n" */
static void add_folded(struct thread *t, const struct thread_stack *stack)
{
	const struct stack end = { .end = stack->end };
	const char *cut = stack->frames ? stack_cut(&end) : stack->runs ? "[runs]" : NULL;
	struct out *o = &t->stack;

	out_escaped(o, t->comm, strlen(t->comm));
	out_char(o, '\n');
	if (cut)
		out_printf(o, "%s\n", cut);
	for (size_t i = stack->frames ? stack->cnt : 0; i--;)
		add_frame_text(o, &stack->frames[i]);
	for (size_t begin, len = t->kernel.len; len; len = begin) {
		for (begin = len - 1; begin && t->kernel.buf[begin - 1] != '\n'; begin--)
			;
		out_mem(o, t->kernel.buf + begin, len - 1 - begin);
		out_str(o, "_[k]\n");
	}
}

/*
 * Reads state and stack of @t; one that runs may go to sleep in a moment. Adds the duration of further
 * tries to *@retry_ns. -ESRCH if it has ended.
 */
static int read_thread(const struct options *o, pid_t pid, struct thread_stacks *stacks,
	struct thread *t, uint64_t *retry_ns, struct json *doc)
{
	struct thread_stack stack = {};
	bool stays = false;
	int code;

	/* Its call, the kernel's frames and its own are those of one wait, or are not printed. */
	for (int i = 0; i < TRIES && !stays; i++) {
		uint64_t begin = clock_ns(CLOCK_MONOTONIC);

		if (i && *retry_ns > RETRY_NS)
			break;
		if (i)
			sleep_ns(TRY_NS);
		stack = thread_stack_read(stacks, pid, t->tid);
		code = blocked_read(pid, t->tid, &t->blocked);
		if (code)
			return code == -ENOENT ? -ESRCH : code;
		t->kernel.len = 0;
		if (!stack.runs && (o->list.verbose || doc))
			read_kernel(pid, t);
		stays = stack.runs ? stack.frames != NULL : !stack.frames || thread_stacks_stays(stacks);
		if (i)
			*retry_ns += clock_ns(CLOCK_MONOTONIC) - begin;
	}
	if (!stays)
		stack = (struct thread_stack) { .runs = true };
	if (stack.runs) {
		t->blocked = (struct blocked) { .state = 'R' };
		t->kernel.len = 0;
	}
	t->slept_ns = stack.slept_ns;
	proc_comm(pid, t->tid, t->comm);
	if (t->blocked.state != 'R' && t->blocked.number >= 0)
		t->call = syscall_name(SYSCALL_NATIVE, (unsigned int)t->blocked.number);
	if (doc) {
		thread_json(doc, o, pid, t, &stack);
		return 0;
	}
	if (o->list.format) {
		add_folded(t, &stack);
		return 0;
	}
	wait_text(&t->does, pid, t);
	if (o->list.verbose)
		kernel_text(&t->stack, &t->kernel);
	thread_stack_text(&t->stack, &stack);
	t->unknown = stack.runs && (!stack.frames || stack.python);
	return 0;
}

/* --- the command -------------------------------------------------------------------------------- */

static bool is_same(const struct out *a, const struct out *b)
{
	return a->len == b->len && (!a->len || !memcmp(a->buf, b->buf, a->len));
}

static bool is_alike(const struct thread *a, const struct thread *b)
{
	return is_same(&a->does, &b->does) && is_same(&a->stack, &b->stack) &&
		!strcmp(a->comm, b->comm);
}

/* " for 1.2 s", or " for 1.2 to 3.4 s" */
static void slept_text(struct out *o, uint64_t min, uint64_t max)
{
	char shortest[TEXT_NUM_LEN], longest[TEXT_NUM_LEN];

	if (!min)
		return;
	text_duration(min, shortest);
	text_duration(max, longest);
	out_printf(o, " for %s", shortest);
	if (strcmp(shortest, longest))
		out_printf(o, " to %s", longest);
}

/* "4712, 4713 and 10 more, worker: waits in futex for 1.2 s", and a line for each frame. */
static void print_alike(struct thread *threads, size_t cnt, size_t first)
{
	struct thread *t = &threads[first];
	__cleanup(out_done) struct out o = {};
	uint64_t min = t->slept_ns, max = min;
	size_t alike = 0;

	for (size_t i = first; i < cnt; i++) {
		if (threads[i].told || !is_alike(t, &threads[i]))
			continue;
		threads[i].told = true;
		min = threads[i].slept_ns < min ? threads[i].slept_ns : min;
		max = threads[i].slept_ns > max ? threads[i].slept_ns : max;
		if (alike++ >= NAMED)
			continue;
		out_printf(&o, "%s%d", alike > 1 ? ", " : "", threads[i].tid);
	}
	if (alike > NAMED)
		out_printf(&o, " and %zu more", alike - NAMED);
	out_char(&o, ' ');
	out_escaped(&o, t->comm, strlen(t->comm));
	out_str(&o, ": ");
	out_mem(&o, t->does.buf, t->does.len);
	slept_text(&o, min, max);
	out_char(&o, '\n');
	out_mem(&o, t->stack.buf, t->stack.len);
	fwrite(o.buf, 1, o.len, stdout);
}

/* Prints each different stack with the number of its threads; or a flame graph, also of their times. */
static void print_stacks(const struct options *o, pid_t pid, struct thread *threads, size_t cnt)
{
	struct trie trie = {};
	char title[32];

	for (size_t i = 0; i < cnt; i++) {
		struct stats_row row = { .n = { .calls = 1, .returns = 1, .total_ns = threads[i].slept_ns } };
		struct out *stack = &threads[i].stack;
		uint32_t at = NO_NODE;
		size_t alike = 1;

		if (threads[i].told)
			continue;
		for (size_t k = i + 1; o->list.format == STACK_FOLDED && k < cnt; k++) {
			if (threads[k].told || !is_same(stack, &threads[k].stack))
				continue;
			threads[k].told = true;
			alike++;
		}
		for (size_t begin = 0, end; begin < stack->len; begin = end + 1) {
			for (end = begin; stack->buf[end] != '\n'; end++)
				if (stack->buf[end] == ';')
					stack->buf[end] = ':';
			stack->buf[end] = '\0';
			if (o->list.format == STACK_FLAME)
				trie_pass(&trie, &at, stack->buf + begin, &row, NULL);
			else
				printf(begin ? ";%s" : "%s", stack->buf + begin);
		}
		if (o->list.format == STACK_FOLDED)
			printf(" %zu\n", alike);
	}
	snprintf(title, sizeof(title), "stack %d", pid);
	if (o->list.format == STACK_FLAME)
		print_flame_threads(&trie, title, stdout);
	trie_done(&trie);
	fflush(stdout);
}

static int stack_number(const struct options *o, const char *word, pid_t *ret_number)
{
	char *end;
	long n = strtol(word, &end, 10);

	if (*end || end == word || n < 1 || n > 1 << 22)
		return cmd_usage(o->g, "'%s' is not the number of a process or thread", word);
	*ret_number = (pid_t)n;
	return 0;
}

static int print_threads(const struct options *o, pid_t pid, struct thread *threads, size_t cnt)
{
	_cleanup_json_ struct json *doc = o->g->json ? json_list(o->g, "threads") : NULL;
	_cleanup_thread_stacks_ struct thread_stacks *stacks = NULL;
	_cleanup_free_ pid_t *tids = xcalloc(cnt + 1, sizeof(*tids));
	struct err err = {};
	size_t read = 0, running = 0;
	uint64_t retry_ns = 0;
	char hint[TEXT_JIT_LEN];
	int code;

	/* Many threads that run would leave this one no CPU. */
	(void)setpriority(PRIO_PROCESS, 0, -20);
	if (thread_stacks_new(o->list.lines, &stacks, &err))
		return cmd_fail(o->g, &err);
	for (size_t i = 0; i < cnt; i++)
		tids[i] = threads[i].tid;
	thread_stacks_sample(stacks, tids, cnt);
	for (size_t i = 0; i < cnt; i++) {
		code = read_thread(o, pid, stacks, &threads[i], &retry_ns, doc);
		if (code && code != -ESRCH) {
			err_sys(&err, code, "cannot look at process %d", pid);
			return cmd_fail(o->g, &err);
		}
		threads[i].told = code;
		read += !code;
	}
	if (!read) {
		err_set(&err, -ESRCH, "process %d has ended", pid);
		return cmd_fail(o->g, &err);
	}
	if (doc)
		return json_print(TAKE_PTR(doc));
	for (size_t i = 0; i < cnt && !o->list.format; i++) {
		if (threads[i].told)
			continue;
		running += threads[i].unknown;
		if (i)
			putchar('\n');
		print_alike(threads, cnt, i);
	}
	if (o->list.format)
		print_stacks(o, pid, threads, cnt);
	fflush(stdout);
	if (thread_stacks_nameless(stacks))
		cmd_note(o->g, "%s", text_jit(thread_stacks_nameless(stacks), hint));
	if (running)
		cmd_note(o->g, "%zu thread%s: 'funcsnoop run cpu -p %d -d 1 --by stack' shows where",
			running, running == 1 ? " runs" : "s run", pid);
	return EXIT_DONE;
}

static int run_parsed(const struct options *o)
{
	_cleanup_free_ pid_t *tids = NULL;
	struct thread *threads;
	struct err err = {};
	char path[64];
	size_t cnt = 0, wanted = o->words.cnt - 1;
	pid_t pid = 0, tid = 0;
	int status = stack_number(o, o->words.word[0], &pid);

	if (status)
		return status;
	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	if (proc_pids(path, &tids, &cnt, NULL) || !cnt) {
		err_set(&err, -ESRCH, "there is no process %d", pid);
		return cmd_fail(o->g, &err);
	}
	threads = xcalloc(cnt + wanted + 1, sizeof(*threads));
	for (size_t i = 0; !wanted && i < cnt; i++)
		threads[i].tid = tids[i];
	for (size_t i = 0; !status && i < wanted; i++) {
		bool found = false;

		status = stack_number(o, o->words.word[i + 1], &tid);
		for (size_t k = 0; !status && k < cnt; k++)
			found |= tids[k] == tid;
		threads[i].tid = tid;
		if (!status && !found) {
			err_set(&err, -ESRCH, "process %d has no thread %d", pid, tid);
			status = cmd_fail(o->g, &err);
		}
	}
	if (!status)
		status = print_threads(o, pid, threads, wanted ? wanted : cnt);
	threads_free(threads, cnt + wanted);
	return status;
}

static int run(struct globals *g, int argc, char **argv)
{
	_cleanup_options_ struct options o;

	cmd_parse(g, &cmd_stack, argc, argv, &o);
	if (!o.words.cnt)
		return cmd_usage(g, "no process given");
	return run_parsed(&o);
}

const struct command cmd_stack = { "stack", "PID [TID...]", "where threads are, what they wait for", run,
	ON_STACK, "PID [TID...]",
	"Print where each thread of a process is now, and what it waits for.\v"
	"No thread is stopped. The stack of one that runs is a sample of the CPU clock.\n"
	"Examples:\n"
	"  funcsnoop stack 4711\n"
	"  funcsnoop stack 4711 4713 --lines" };
