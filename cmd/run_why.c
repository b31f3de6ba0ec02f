// SPDX-License-Identifier: BSD-2-Clause
// Where the time of a summary's threads went: on the CPU, waiting for one, and blocked, by what they
// waited for. The parts' documents have the waits; the kernel's clock of the process has the rest.
#include <inttypes.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/util.h"
#include "internal.h"
#include "proc/proc.h"
#include "show/text.h"
#include "stats/figures.h"

#define S_NS 1000000000ULL

/* --- what the kernel counts ---------------------------------------------------------------------- */

/* Adds the page faults of @pid, its threads, and its CPU time, also of threads that have ended. */
static bool add_process(struct why_counts *c, pid_t pid)
{
	struct proc_stat stat;
	struct timespec ts;
	clockid_t clock;

	if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &ts) ||
		proc_read_stat("/proc", pid, 0, &stat))
		return false;
	c->cpu_ns += (uint64_t)ts.tv_sec * S_NS + ts.tv_nsec;
	c->minor += stat.minor;
	c->major += stat.major;
	c->threads += stat.threads;
	return true;
}

bool why_count(const pid_t *pids, size_t cnt, struct why_counts *ret)
{
	*ret = (struct why_counts) { .at_ns = clock_ns(CLOCK_MONOTONIC) };
	for (size_t i = 0; i < cnt; i++)
		if (!add_process(ret, pids[i]))
			return false;
	return true;
}

/* The same of a command that has exited, and of its children that it has waited for. */
bool why_count_command(pid_t pid, struct why_counts *ret)
{
	struct rusage used;
	siginfo_t info;

	*ret = (struct why_counts) { .at_ns = clock_ns(CLOCK_MONOTONIC) };
	if (syscall(SYS_waitid, P_PID, pid, &info, WEXITED | WNOWAIT | WNOHANG, &used) || !info.si_pid)
		return false;
	ret->cpu_ns = (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * S_NS +
		(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1000ULL;
	ret->minor = used.ru_minflt;
	ret->major = used.ru_majflt;
	return true;
}

/* --- what threads wait for ----------------------------------------------------------------------- */

enum { LOCKS = 1 };

/* By a function of the kernel that is on the stack; the first row that fits. */
static const struct {
	const char *text, *functions[7];
} reasons[] = {
	{ "page faults", { "exc_page_fault", "do_user_addr_fault", "do_page_fault", "do_mem_abort" } },
	[LOCKS] = { "locks (futex)", { "do_futex", "__futex_wait", "futex_wait" } },
	{ "child processes", { "do_wait", "kernel_wait4", "kernel_waitid" } },
	{ "a time to pass (sleep)", { "do_nanosleep", "hrtimer_nanosleep" } },
	{ "events (poll, select, epoll)", { "do_epoll_wait", "ep_poll", "do_sys_poll", "do_select" } },
	{ "pipes", { "pipe_read", "anon_pipe_read", "pipe_write", "anon_pipe_write", "fifo_open" } },
	{ "sockets", { "__sys_recvfrom", "__sys_sendto", "sock_read_iter", "sock_write_iter",
		"__sys_accept4", "__sys_connect", "____sys_recvmsg" } },
	{ "signals", { "do_sigtimedwait", "sigsuspend", "__do_sys_pause", "do_signal_stop" } },
	{ "terminals", { "n_tty_read", "tty_read", "n_tty_write", "tty_write" } },
	{ "files and disks", { "vfs_read", "vfs_write", "vfs_fsync_range", "do_filp_open", "iterate_dir",
		"io_schedule", "filemap_fault" } },
	{ "anything else", { NULL } },
};

enum { ON_CPU = ARRAY_SIZE(reasons), IN_QUEUE, NOT_SEEN, SHARES };

#define PLACE_LEN 160

struct place {
	char *text;
	uint64_t value; /* ns, or samples */
};

struct share {
	const char *text, *more; /* .more: a command that shows more, or NULL */
	uint64_t ns, cnt;
	struct place *places;
	size_t place_cnt;
	uint64_t of; /* sum of .places */
};

static bool fits(const char *frame, size_t i)
{
	size_t len = strlen(frame);

	if (len > 4 && !strcmp(frame + len - 4, "_[k]"))
		for (size_t k = 0; k < ARRAY_SIZE(reasons[i].functions) && reasons[i].functions[k]; k++)
			if (!strncmp(frame, reasons[i].functions[k], len - 4) && !reasons[i].functions[k][len - 4])
				return true;
	return false;
}

static size_t reason_of(const char *stack)
{
	for (size_t i = 0; i < ARRAY_SIZE(reasons) - 1; i++)
		for (const char *frame = stack; stack && *frame; frame += strlen(frame) + 1)
			if (fits(frame, i))
				return i;
	return ARRAY_SIZE(reasons) - 1;
}

/* The last @most functions before the kernel, without those that libraries hide: "holder > usleep". */
static void place_text(const char *stack, size_t most, char ret[PLACE_LEN])
{
	const char *kept[3] = { NULL };

	for (const char *frame = stack; stack && *frame; frame += strlen(frame) + 1) {
		if (strstr(frame, "_[k]") || *frame == '_')
			continue;
		memmove(kept, kept + 1, sizeof(kept) - sizeof(*kept));
		kept[ARRAY_SIZE(kept) - 1] = frame;
	}
	*ret = '\0';
	for (size_t i = ARRAY_SIZE(kept) - most; i < ARRAY_SIZE(kept); i++)
		if (kept[i])
			snprintf(ret + strlen(ret), PLACE_LEN - strlen(ret), "%s%s", *ret ? " > " : "", kept[i]);
}

static void add_place(struct share *s, const char *stack, size_t most, uint64_t value)
{
	char text[PLACE_LEN];
	size_t i = 0;

	place_text(stack, most, text);
	s->of += value;
	while (i < s->place_cnt && strcmp(s->places[i].text, text) != 0)
		i++;
	if (i == s->place_cnt)
		*array_add(s->places, s->place_cnt) = (struct place) { .text = xstrdup(text) };
	s->places[i].value += value;
}

static const struct saved_func *only_func(const struct saved *doc)
{
	return doc && doc->cnt && doc->groups[0].func_cnt ? &doc->groups[0].funcs[0] : NULL;
}

static void add_waits(struct share *shares, const struct saved_func *f)
{
	for (size_t i = 0; f && i < f->row_cnt; i++) {
		const struct saved_part *part = saved_part_find(&f->rows[i], "stack");
		const char *stack = part ? part->stack : NULL;
		struct share *s = &shares[reason_of(stack)];
		uint64_t ns = figure_or_0(&f->rows[i].figures, FIGURE_TOTAL);

		s->ns += ns;
		s->cnt += figure_or_0(&f->rows[i].figures, FIGURE_CALLS);
		add_place(s, stack, 3, ns);
	}
}

/* Adds the waits for a CPU. A woken thread's is part of its other wait: it is taken from those. */
static void add_queue(struct share *shares, const struct saved_func *f)
{
	struct share *s = &shares[IN_QUEUE];
	uint64_t woken = 0, cnt = 0, less;

	for (size_t i = 0; f && i < f->row_cnt; i++) {
		const struct saved_part *waker = saved_part_find(&f->rows[i], "waker");
		uint64_t ns = figure_or_0(&f->rows[i].figures, FIGURE_TOTAL);

		s->ns += ns;
		s->cnt += figure_or_0(&f->rows[i].figures, FIGURE_CALLS);
		if (waker && waker->value[0])
			woken += ns;
	}
	for (size_t i = 0; i < ON_CPU; i++)
		cnt += shares[i].cnt;
	for (size_t i = 0; i < ON_CPU; i++) {
		less = cnt ? (double)woken * shares[i].cnt / cnt : 0;
		shares[i].ns -= less < shares[i].ns ? less : shares[i].ns;
	}
}

static void add_samples(struct share *s, const struct saved_func *f)
{
	for (size_t i = 0; f && i < f->row_cnt; i++) {
		const struct saved_part *part = saved_part_find(&f->rows[i], "stack");

		add_place(s, part ? part->stack : NULL, 1, figure_or_0(&f->rows[i].figures, FIGURE_CALLS));
	}
}

/* --- text ---------------------------------------------------------------------------------------- */

DEFINE_ORDER(compare_shares, struct share, FALLING(ns))

/* On a terminal, the innermost functions of the place that fit. */
static void print_share(const struct share *s, uint64_t all_ns)
{
	const struct place *most = NULL;
	const char *place, *inner;
	char text[TEXT_NUM_LEN];
	size_t len;

	for (size_t i = 0; i < s->place_cnt; i++)
		if (!most || s->places[i].value > most->value)
			most = &s->places[i];
	len = printf("%5.1f %%  %8s  %s", 100.0 * s->ns / all_ns, text_duration(s->ns, text), s->text);
	if (s->cnt)
		len += printf(", %s", counted(s->cnt, "time", "times").text);
	if (most && *most->text) {
		place = most->text;
		len += printf("; %.0f %% in ", 100.0 * most->value / s->of);
		while (text_width() && len + strlen(place) > text_width() && (inner = strstr(place, " > ")))
			place = inner + strlen(" > ");
		printf("%s", place);
	}
	printf("\n");
}

/* Returns the number of waits whose return was not traced: their time is in no share. */
static uint64_t lost_waits(const struct saved_func *off, const struct saved_func *queue)
{
	return (off ? figure_or_0(&off->figures, FIGURE_ABANDONED) : 0) +
		(queue ? figure_or_0(&queue->figures, FIGURE_ABANDONED) : 0);
}

static void print_all(struct share *shares, const struct why_counts *from, const struct why_counts *to,
	uint64_t all_ns)
{
	char all[TEXT_NUM_LEN], wall[TEXT_NUM_LEN];

	printf("Where the time went: %s of threads in %s\n", text_duration(all_ns, all),
		text_duration(to->at_ns - from->at_ns, wall));
	qsort(shares, SHARES, sizeof(*shares), compare_shares);
	for (size_t i = 0; i < SHARES && shares[i].ns * 1000 >= all_ns; i++)
		print_share(&shares[i], all_ns);
	for (size_t i = 0; i < SHARES && shares[i].ns * 20 >= all_ns; i++)
		if (shares[i].more)
			printf("%s\n", shares[i].more);
	printf("page faults: %" PRIu64 ", of which %" PRIu64 " read from a disk\n",
		to->minor - from->minor + to->major - from->major, to->major - from->major);
}

static struct saved *document(int fd)
{
	struct saved *doc = NULL;
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return saved_read(path, &doc, NULL) ? NULL : doc;
}

void why_print(const struct why_counts *from, const struct why_counts *to, int cpu_fd, int off_fd, int queue_fd)
{
	_cleanup_saved_ struct saved *cpu = document(cpu_fd), *off = document(off_fd), *queue = document(queue_fd);
	struct share shares[SHARES] = { [ON_CPU] = { .text = "on a CPU" },
		[IN_QUEUE] = { .text = "runnable, waiting for a CPU" },
		[NOT_SEEN] = { .text = "in waits that began before, or continue" } };
	uint64_t all_ns = 0, same_ns = (to->at_ns - from->at_ns) * from->threads;
	char texts[ARRAY_SIZE(reasons)][48];

	for (size_t i = 0; i < ARRAY_SIZE(reasons); i++) {
		snprintf(texts[i], sizeof(texts[i]), "waiting for %s", reasons[i].text);
		shares[i].text = texts[i];
	}
	shares[LOCKS].more = "names and holders of locks: funcsnoop run locks --by lock,waker_stack";
	if (!off || !queue)
		return;
	add_waits(shares, only_func(off));
	add_queue(shares, only_func(queue));
	add_samples(&shares[ON_CPU], only_func(cpu));
	shares[ON_CPU].ns = to->cpu_ns - from->cpu_ns;
	for (size_t i = 0; i < SHARES; i++)
		all_ns += shares[i].ns;
	if (from->threads && from->threads == to->threads && all_ns < same_ns) {
		shares[NOT_SEEN].ns = same_ns - all_ns;
		all_ns = same_ns;
	}
	if (all_ns)
		print_all(shares, from, to, all_ns);
	if (all_ns && lost_waits(only_func(off), only_func(queue)))
		printf("%" PRIu64 " waits are missing: their return was not traced\n",
			lost_waits(only_func(off), only_func(queue)));
	for (size_t i = 0; i < SHARES; i++) {
		for (size_t k = 0; k < shares[i].place_cnt; k++)
			free(shares[i].places[k].text);
		free(shares[i].places);
	}
}
