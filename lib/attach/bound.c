// SPDX-License-Identifier: BSD-2-Clause
// Keeping the overhead of groups that are attached within their bounds.
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <bpf/bpf.h>

#include "attach/attach.h"
#include "base/apart.h"
#include "base/file.h"
#include "base/util.h"
#include "elf/elf_file.h"
#include "group/records.h"
#include "internal.h"
#include "pins/bpffs.h"
#include "pins/maps.h"
#include "proc/proc.h"
#include "target/kind.h"

/* --- removes probes that have become too expensive, while the group counts ----------------- */

#define MS_NS    1000000ULL
#define S_NS     1000000000ULL
#define YOUNG_NS (2 * S_NS)   /* duration of the first phase, with frequent checks */
#define SOON_NS  (3 * MS_NS)  /* interval of checks in the first phase */
#define LATE_NS  (20 * MS_NS) /* interval of checks later */
#define SPAN_NS  (150 * MS_NS) /* CPU time of a span, whose calls are judged together, .. */
#define SPAN_MAX S_NS          /* .. unless it lasts this long */
#define RETURNS_NS  (100 * MS_NS) /* the kernel has removed breakpoints of returns, */
#define ENTRIES_NS  (500 * MS_NS) /* and all others: else a call could count twice */
#define HANDOVER_NS (5 * S_NS) /* a handover takes less, or extend_handover() extends it */
#define SPLIT_MAX   32  /* links of a group that may be split */
#define EVEN_MAX    256 /* probes of a link that is replaced only because others are */
#define HARM_MIN (5 * MS_NS)   /* a lower cost is ignored until the span ends */

/* Where a span starts. Also written by the process that replaces links: apart_alloc(). */
struct span_from {
	uint64_t ns, used_ns;
	struct { uint64_t cost_ns, calls; } of[]; /* each function; calls of others, too */
};

struct shed {
	const struct draft *draft; /* NULL: only the group is known, */
	struct group *group;       /* this one, and its files */
	int *lib_fd;
	uint32_t fn_cnt;
	struct bpffs *fs;
	char name[GROUP_NAME_MAX + 1];
	uint32_t share;
	struct price price;
	struct load load;
	int dir_fd, pids_fd;
	struct map_mapping stats, ctl, places;
	uint32_t place_cnt;
	uint32_t rows;
	uint64_t begun_ns, looked_ns;
	struct span_from *from;
	struct budget_func *funcs; /* apart_alloc() */
	struct group_func *shown;
	uint64_t over_share; /* shed_over_share() */
	bool *was; /* functions that were left out before */
	unsigned char *gone; /* apart_alloc(): of each function, for slots_unsee() */
	bool again; /* the process that replaced links was killed */
	bool splits; /* new links are by class_of() */
	bool over; /* the group is gone, or links cannot be replaced */
};

static size_t from_size(uint32_t fn_cnt)
{
	return offsetof(struct span_from, of[fn_cnt + 1]);
}

/* --- the cost --------------------------------------------------------------------------------- */

static void read_counts(const struct shed *s, uint32_t fn, struct fsn_counts *ret_counts)
{
	const struct fsn_stat *stat = s->stats.addr;
	unsigned long long *to = (unsigned long long *)ret_counts;

	memset(ret_counts, 0, sizeof(*ret_counts));
	for (uint32_t i = fn; i < s->rows; i += s->fn_cnt) {
		const unsigned long long *from = (const unsigned long long *)&stat[i].n;

		for (size_t k = 0; k < sizeof(*ret_counts) / sizeof(*to); k++)
			to[k] += __atomic_load_n(&from[k], __ATOMIC_RELAXED);
	}
}

/* One trap passes many records of GPU activity on: their run time is measured. */
static uint64_t cost_of(const struct shed *s, uint32_t fn, const struct fsn_counts *n)
{
	const struct group_func *shown = &s->shown[fn];

	return !shown->priced && n->walks_ns ? n->walks_ns
					     : cost_of_hits(&s->price, shown->site, shown->end, n);
}

/* Adds process @pid, with all CPU time since it started. */
static void load_add(struct load *load, pid_t pid)
{
	for (size_t i = 0; i < load->cnt; i++)
		if (load->of[i].pid == pid)
			return;
	load->of = xreallocarray(load->of, load->cnt + 2, sizeof(*load->of));
	load->of[load->cnt++] = (struct load_of) { .pid = pid };
}

/* Adds children that the group traces by now. */
static void add_children(struct shed *s)
{
	uint32_t pid;

	map_foreach(s->pids_fd, &pid)
		if (pid != FSN_PID_NONE)
			load_add(&s->load, pid);
}

/* Starts the next span at the present values of the counters. */
static void begin_span(struct shed *s)
{
	struct fsn_counts n;

	for (uint32_t i = 0; i < s->fn_cnt; i++) {
		read_counts(s, i, &n);
		s->from->of[i].calls = n.calls + n.aside;
		s->from->of[i].cost_ns = cost_of(s, i, &n);
	}
	add_children(s);
	s->from->used_ns = load_ns(&s->load);
	s->from->ns = clock_ns(CLOCK_MONOTONIC);
}

/* Sets .calls of .funcs to the cost of the span: prices there are 1 ns a call. */
static struct budget_span read_span(struct shed *s)
{
	struct budget_span span = {};
	struct fsn_counts n;

	for (uint32_t i = 0; i < s->fn_cnt; i++) {
		struct budget_func *f = &s->funcs[i];

		if (f->limit == LIMIT_LEFT_OUT)
			continue;
		read_counts(s, i, &n);
		f->calls = cost_of(s, i, &n);
		f->calls -= s->from->of[i].cost_ns < f->calls ? s->from->of[i].cost_ns : f->calls;
		f->calls_per_s = n.calls + n.aside - s->from->of[i].calls;
		span.cost_ns += f->calls;
	}
	add_children(s);
	span.used_ns = load_ns(&s->load) - s->from->used_ns;
	span.wall_ns = clock_ns(CLOCK_MONOTONIC) - s->from->ns;
	budget_own(&span);
	return span;
}

/* --- choosing functions --------------------------------------------------------------------- */

/*
 * Chooses functions to leave out, until the others cost half of the share: replacing links slows the
 * program down, so it should not soon be needed again. Returns their number.
 */
static size_t choose(struct shed *s, const struct budget_span *span)
{
	uint64_t own_ns = budget_blurred_own(span, s->share);
	size_t cnt;

	for (uint32_t i = 0; i < s->fn_cnt; i++) {
		s->funcs[i].own_ns = own_ns;
		s->was[i] = s->funcs[i].limit == LIMIT_LEFT_OUT;
	}
	cnt = budget_leave_out(s->funcs, s->fn_cnt, s->share - s->share / 2);
	for (uint32_t i = 0; cnt && i < s->fn_cnt; i++) {
		struct budget_func *f = &s->funcs[i];

		if (f->limit != LIMIT_LEFT_OUT || s->was[i])
			continue;
		f->calls = (__uint128_t)f->calls * S_NS / span->own_ns;
		f->calls_per_s = (__uint128_t)f->calls_per_s * S_NS / (span->wall_ns + 1);
	}
	return cnt;
}

/* A burst may cost up to the share of a full span, so that rarely called functions are kept. */
static uint64_t harm_ns(const struct shed *s)
{
	uint64_t ns = (__uint128_t)SPAN_NS * s->share / FSN_SHARE_ALL;

	return ns > HARM_MIN ? ns : HARM_MIN;
}

/*
 * Marks the chosen functions as left out for readers of the group, or with @undo as they were before,
 * which is kept in @limits.
 */
static void mark_left_out(const struct shed *s, uint32_t *limits, bool undo)
{
	_cleanup_close_ int fd = bpffs_get(s->dir_fd, map_pin_name(MAPID_FUNCS), 0);
	struct fsn_func f;

	for (uint32_t i = 0; fd >= 0 && i < s->fn_cnt; i++) {
		if (s->funcs[i].limit != LIMIT_LEFT_OUT || s->was[i] ||
			bpf_map_lookup_elem(fd, &i, &f))
			continue;
		if (!undo)
			limits[i] = f.limit;
		f.limit = undo ? limits[i] : LIMIT_LEFT_OUT;
		f.calls_per_s = s->funcs[i].calls_per_s;
		(void)!bpf_map_update_elem(fd, &i, &f, 0);
	}
}

/* --- replacing links by links with fewer probes --------------------------------------------- */

/* The function of a probe, also of the instruction after a call of it; otherwise its place, from .fn_cnt on. */
static uint32_t fn_of(const struct shed *s, uint64_t cookie)
{
	uint32_t fn = cookie & FSN_COOKIE_FN_MASK;
	const struct fsn_place *place = s->places.addr;

	if (fn < s->fn_cnt || fn - s->fn_cnt >= s->place_cnt)
		return fn;
	place += fn - s->fn_cnt;
	return place->link_cnt ? fn : place->fn;
}

static bool is_left_out(const struct shed *s, uint64_t cookie)
{
	uint32_t fn = fn_of(s, cookie);

	return fn < s->fn_cnt && s->funcs[fn].limit == LIMIT_LEFT_OUT;
}

static int fd_of_func(const struct shed *s, uint32_t fn)
{
	if (!s->draft)
		return s->lib_fd[s->group->funcs[fn].lib];
	return s->draft->targets[fn].object->elf ? elf_file_fd(s->draft->targets[fn].object->elf) : -1;
}

/* Returns the descriptor of the file that @link probes, or -1. */
static int file_of(const struct shed *s, const struct link_multi_info *link)
{
	for (uint32_t i = 0; i < link->cnt; i++) {
		uint32_t fn = fn_of(s, link->cookies[i]);

		if (fn < s->fn_cnt)
			return fd_of_func(s, fn);
	}
	return -1;
}

/*
 * Functions that are called about equally often while others slow the program down: these become hot
 * together when the others are gone, and then a link of their own need only be closed.
 */
#define CLASSES 64
static unsigned int class_of(const struct shed *s, uint64_t cookie)
{
	uint32_t fn = fn_of(s, cookie);
	uint64_t calls = s->splits && fn < s->fn_cnt ? s->funcs[fn].calls_per_s : 0; /* in the span */

	return calls ? CLASSES - 1 - __builtin_clzll(2 * calls) : 0;
}

/*
 * Copies the probes of @link of functions of @class to @offsets and @cookies, without those of left-out
 * functions and with the parity of @turn. Returns their number.
 */
static uint32_t cut_link(const struct shed *s, const struct link_multi_info *link, uint32_t turn,
	unsigned int class, unsigned long *offsets, uint64_t *cookies)
{
	uint64_t bit = 1ULL << FSN_COOKIE_TURN_SHIFT;
	uint32_t cnt = 0;

	for (uint32_t i = 0; i < link->cnt; i++) {
		uint64_t cookie = link->cookies[i];

		if (is_left_out(s, cookie) || class_of(s, cookie) != class)
			continue;
		offsets[cnt] = link->offsets[i];
		cookies[cnt++] = turn & 1 ? cookie | bit : cookie & ~bit;
	}
	return cnt;
}

struct handing {
	struct shed *s;
	size_t replaced; /* links */
	bool mixed;      /* a hot function has a link with others */
	int code;
};

struct old_link {
	int fd;    /* -1: not replaced */
	bool ends; /* it has probes of returns only */
	struct link_closing closing;
};

static unsigned int turn_of(const struct link_multi_info *link)
{
	return link->cookies[0] >> FSN_COOKIE_TURN_SHIFT & 1;
}

static bool has_entries(const struct link_multi_info *link)
{
	uint32_t kind = link->cookies[0] >> FSN_COOKIE_KIND_SHIFT & 15;

	return kind <= FSN_COUNT || (kind >= FSN_SAME && kind <= FSN_ARRIVE);
}

/*
 * Marks the calls whose returns no probe sees after @link is closed: of left-out functions, and those
 * that started at a session link, because each session link sees only returns of its own calls.
 */
static void mark_gone(const struct shed *s, const struct link_multi_info *link)
{
	for (uint32_t i = 0; i < link->cnt; i++) {
		uint32_t fn = fn_of(s, link->cookies[i]);

		if (fn < s->fn_cnt && is_left_out(s, link->cookies[i]))
			s->gone[fn] = 3;
		else if (fn < s->fn_cnt && link->is_session)
			s->gone[fn] |= 1 << turn_of(link);
	}
}

static uint32_t count_kept(const struct shed *s, const struct link_multi_info *link)
{
	uint32_t cnt = 0;

	for (uint32_t i = 0; i < link->cnt; i++)
		cnt += !is_left_out(s, link->cookies[i]);
	return cnt;
}

/* Returns a mask of the classes that functions of @link have which are not left out. */
static uint64_t classes_of(const struct shed *s, const struct link_multi_info *link)
{
	uint64_t classes = 0;

	for (uint32_t i = 0; i < link->cnt; i++)
		if (!is_left_out(s, link->cookies[i]))
			classes |= 1ULL << class_of(s, link->cookies[i]);
	return classes;
}

/* Pins a link for the probes of @link of functions of @class. */
static int attach_class(const struct shed *s, const struct link_multi_info *link, uint32_t turn,
	unsigned int class, int prog_fd)
{
	_cleanup_free_ unsigned long *offsets = xcalloc(link->cnt, sizeof(*offsets));
	_cleanup_free_ uint64_t *cookies = xcalloc(link->cnt, sizeof(*cookies));
	struct link_probes probes = { .file_fd = file_of(s, link),
		.offsets = offsets,
		.cookies = cookies,
		.cnt = cut_link(s, link, turn, class, offsets, cookies) };
	_cleanup_close_ int fd = -1;
	char name[64];
	int code;

	code = link_multi(prog_fd,
		link->is_session ? LINK_TYPE_UPROBE_SESSION : LINK_TYPE_UPROBE_MULTI,
		link->is_return, &probes, link->pid, &fd, NULL);
	if (code)
		return code;
	snprintf(name, sizeof(name), "link_%u_%u", turn, link->prog_id);
	for (int i = 1; !faccessat(s->dir_fd, name, F_OK, 0); i++)
		snprintf(name, sizeof(name), "link_%u_%u_%d", turn, link->prog_id, i);
	return bpffs_pin(s->dir_fd, name, fd, NULL);
}

/*
 * Replaces link @name by links without the left-out functions, one for each class, unless its parity is
 * that of @turn, or it is large and has none of them. Small ones are always replaced: a handover needs
 * only one turn if all links have the same parity. Attaches the new links before it unpins the old one
 * (bpf/call.bpf.h). *@ret_old is the old link, which the caller closes; unchanged if nothing was
 * replaced. Returns 0, or the error that keeps the old link in place.
 */
static int replace_link(
	const struct shed *s, const char *name, uint32_t turn, struct old_link *ret_old)
{
	_cleanup_close_ int fd = bpffs_get(s->dir_fd, name, 0), prog_fd = -1;
	__cleanup(link_multi_info_done) struct link_multi_info link = {};
	int code = fd < 0 ? fd : link_get_multi(fd, &link);
	uint32_t kept;

	/* Not a multi link, or replaced before. */
	if (code == -EINVAL || code == -ENOENT)
		return 0;
	if (code)
		return code;
	if (!link.cnt || turn_of(&link) == (turn & 1))
		return 0;
	kept = count_kept(s, &link);
	if (file_of(s, &link) < 0 || (kept == link.cnt && link.cnt > EVEN_MAX))
		return 0;
	if (kept) {
		prog_fd = bpf_prog_get_fd_by_id(link.prog_id);
		if (prog_fd < 0)
			return -errno;
	}
	for (uint64_t classes = classes_of(s, &link); !code && classes; classes &= classes - 1)
		code = attach_class(s, &link, turn, __builtin_ctzll(classes), prog_fd);
	/* The process has exited, so the old link does nothing. */
	if (code == -ESRCH)
		return 0;
	if (!code && unlinkat(s->dir_fd, name, 0))
		code = -errno;
	if (!code) {
		mark_gone(s, &link);
		*ret_old = (struct old_link) { .fd = TAKE_FD(fd), .ends = !has_entries(&link) };
	}
	return code;
}

static void start_closing(struct old_link *old, size_t cnt, bool ends)
{
	for (size_t i = 0; i < cnt; i++) {
		if (old[i].fd >= 0 && old[i].ends == ends)
			link_closing_start(&old[i].closing, old[i].fd);
	}
}

/* Waits until links with or without entries, as @ends says, are as @far closed. Not longer than @most_ns. */
static void await_closed(
	struct old_link *old, size_t cnt, bool ends, enum link_closing_state far, uint64_t most_ns)
{
	uint64_t until = clock_ns(CLOCK_MONOTONIC) + most_ns;
	size_t i = 0;

	while (i < cnt && ns_until(until)) {
		if (old[i].fd < 0 || old[i].ends != ends || link_closing_state(&old[i].closing) >= far)
			i++;
		else
			sleep_ns(MS_NS / 2);
	}
}

DEFINE_ORDER(compare_fds, struct old_link, RISING(fd))

/* Closes all other descriptors: no process may wait for the end of one until the links are closed. */
static int close_others(struct old_link *old, size_t cnt, int keep)
{
	int from = 0;

	qsort(old, cnt, sizeof(*old), compare_fds);
	keep = fcntl(keep, F_DUPFD, cnt ? old[cnt - 1].fd + 1 : 0);
	for (size_t i = 0; i < cnt; i++) {
		if (old[i].fd < 0)
			continue;
		if (old[i].fd > from)
			close_range(from, old[i].fd - 1, 0);
		from = old[i].fd + 1;
	}
	if (keep > from)
		close_range(from, keep - 1, 0);
	close_range(keep + 1, ~0U, 0);
	return keep;
}

/*
 * Closes links. In parallel, because each close waits for RCU grace periods. Probes of returns go
 * first. If @peer is not -1, sends a byte when all probes are gone, and closes @peer when their
 * programs have run for the last time.
 */
static void close_links(struct old_link *old, size_t cnt, int peer)
{
	start_closing(old, cnt, true);
	await_closed(old, cnt, true, CLOSING_UNPROBED, RETURNS_NS);
	start_closing(old, cnt, false);
	await_closed(old, cnt, false, CLOSING_UNPROBED, ENTRIES_NS);
	if (peer >= 0)
		(void)!send(peer, "", 1, MSG_NOSIGNAL);
	await_closed(old, cnt, true, CLOSING_UNUSED, RETURNS_NS);
	await_closed(old, cnt, false, CLOSING_UNUSED, ENTRIES_NS);
	if (peer >= 0)
		close(peer);
	for (size_t i = 0; i < cnt; i++)
		if (old[i].fd >= 0)
			link_closing_end(&old[i].closing);
}

static int list_links(int dir_fd, char ***ret_names, size_t *ret_cnt)
{
	_cleanup_closedir_ DIR *dir = dir_open_at(dir_fd, ".");
	char **names = NULL;
	struct dirent *d;
	size_t cnt = 0;

	while (dir && (d = readdir(dir))) {
		if (strncmp(d->d_name, "link_", 5) != 0)
			continue;
		*array_add(names, cnt) = xstrdup(d->d_name);
	}
	*ret_names = names;
	*ret_cnt = cnt;
	return dir ? 0 : -errno;
}

static void close_all(struct handing *h, struct old_link *old, size_t cnt);

struct pinned {
	char *name;
	int fd; /* -1: not a multi link */
	struct link_multi_info link;
};

static struct pinned *pinned_open(const struct shed *s, size_t *ret_cnt)
{
	struct pinned *pinned;
	char **names = NULL;

	(void)!list_links(s->dir_fd, &names, ret_cnt);
	pinned = xcalloc(*ret_cnt + 1, sizeof(*pinned));
	for (size_t i = 0; i < *ret_cnt; i++) {
		pinned[i] = (struct pinned) { names[i], bpffs_get(s->dir_fd, names[i], 0), {} };
		if (pinned[i].fd >= 0 && link_get_multi(pinned[i].fd, &pinned[i].link))
			pinned[i].fd = close_fd(pinned[i].fd);
	}
	free(names);
	return pinned;
}

static void pinned_done(struct pinned *pinned, size_t cnt)
{
	for (size_t i = 0; i < cnt; i++) {
		close_fd(pinned[i].fd);
		link_multi_info_done(&pinned[i].link);
		free(pinned[i].name);
	}
	free(pinned);
}

/* Keeps the chosen functions of a link with others: true if there are any. */
static bool keep_mixed(const struct shed *s, const struct link_multi_info *link)
{
	uint32_t kept = count_kept(s, link);
	bool any = false;

	for (uint32_t i = 0; kept && kept < link->cnt && i < link->cnt; i++) {
		uint32_t fn = fn_of(s, link->cookies[i]);

		if (!is_left_out(s, link->cookies[i]) || s->was[fn])
			continue;
		s->funcs[fn].limit = LIMIT_NONE;
		any = true;
	}
	return any;
}

/* Keeps chosen functions unless all of their probes are in links that have no others. */
static void keep_but_whole(const struct shed *s, const struct pinned *pinned, size_t cnt)
{
	_cleanup_free_ bool *whole = xcalloc(s->fn_cnt + 1, sizeof(*whole));
	bool again = true;

	while (again) {
		again = false;
		for (size_t i = 0; i < cnt; i++)
			again |= keep_mixed(s, &pinned[i].link);
	}
	for (size_t i = 0; i < cnt; i++) {
		const struct link_multi_info *link = &pinned[i].link;
		bool kept = count_kept(s, link);

		for (uint32_t k = 0; !kept && k < link->cnt; k++)
			whole[fn_of(s, link->cookies[k])] = true;
	}
	for (uint32_t i = 0; i < s->fn_cnt; i++)
		if (!whole[i] && !s->was[i])
			s->funcs[i].limit = LIMIT_NONE;
}

/*
 * Closes links that have only functions that are left out by now: that needs no turn, because nothing
 * replaces them. Returns their number.
 */
static size_t close_whole(struct handing *h)
{
	const struct shed *s = h->s;
	_cleanup_free_ struct old_link *old = NULL;
	_cleanup_free_ uint32_t *limits = xcalloc(s->fn_cnt, sizeof(*limits));
	size_t cnt, closed = 0;
	struct pinned *pinned = pinned_open(s, &cnt);

	old = xcalloc(cnt + 1, sizeof(*old));
	keep_but_whole(s, pinned, cnt);
	mark_left_out(s, limits, false);
	for (size_t i = 0; i < cnt; i++) {
		struct pinned *p = &pinned[i];

		old[i].fd = -1;
		if (!p->link.cnt || count_kept(s, &p->link) || unlinkat(s->dir_fd, p->name, 0))
			continue;
		mark_gone(s, &p->link);
		old[i] = (struct old_link) { .fd = p->fd, .ends = !has_entries(&p->link) };
		p->fd = -1;
		closed++;
	}
	pinned_done(pinned, cnt);
	if (closed)
		close_all(h, old, cnt);
	return closed;
}

/* Waits until @fd is closed. Others become hot meanwhile, because the program is faster. */
static void await_unused(struct handing *h, int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct shed *s = h->s;
	struct budget_span span;
	int ready;

	while (!(ready = poll(&p, 1, SOON_NS / MS_NS)) || (ready < 0 && errno == EINTR)) {
		span = read_span(s);
		if (!h->mixed && span.cost_ns >= harm_ns(s) && budget_is_over(&span, s->share) &&
			choose(s, &span))
			h->mixed = !close_whole(h);
	}
}

/*
 * Closes links. The kernel removes the breakpoints at once. But since 6.13 the last close of a link
 * then waits for each thread with a traced call in progress, until that returns or the thread has
 * made no other call with a return probe for 100 ms (ri_timer(), kernel/events/uprobes.c): that can
 * be for ever, with one inside main. So a process of its own waits; it does not end before, because a
 * close that is killed leaves breakpoints. The next span starts as soon as the breakpoints are gone,
 * while programs may still run that saw them: await_unused() judges it.
 */
static void close_all(struct handing *h, struct old_link *old, size_t cnt)
{
	struct shed *s = h->s;
	int pair[2] = { -1, -1 };
	pid_t child =
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) ? -1 : fork();
	ssize_t n;
	char byte;

	if (!child) {
		close(pair[0]);
		(void)!read(pair[1], &byte, 1); /* the last close must be here */
		close_links(old, cnt, close_others(old, cnt, pair[1]));
		_exit(0);
	}
	if (child < 0) {
		close_links(old, cnt, -1);
		close_fd(pair[0]);
		close_fd(pair[1]);
		begin_span(s);
		return;
	}
	close(pair[1]);
	for (size_t i = 0; i < cnt; i++)
		if (old[i].fd >= 0)
			close(old[i].fd);
	shutdown(pair[0], SHUT_WR);
	n = read(pair[0], &byte, 1);
	begin_span(s);
	if (n == 1)
		await_unused(h, pair[0]);
	close(pair[0]);
}

/* Counts the calls in progress whose links are closed. */
static void unsee_gone(const struct shed *s)
{
	_cleanup_group_ struct group *g = NULL;

	if (!group_open(s->fs, s->name, true, &g, NULL))
		(void)!slots_unsee(g, s->gone);
}

static bool has_probe(const struct link_multi_info *link, unsigned long offset, uint64_t cookie)
{
	return ANY_WHERE(link->cnt, i, link->offsets[i] == offset &&
		!((link->cookies[i] ^ cookie) & ~(1ULL << FSN_COOKIE_TURN_SHIFT)));
}

/*
 * Removes the links of a turn that has failed or was killed if their old links are still pinned: in that
 * turn, which has not ended, one of both counts, but after it both would.
 */
static void remove_doubles(const struct shed *s)
{
	uint32_t turn = ((struct fsn_ctl *)s->ctl.addr)->turn;
	struct pinned *pinned;
	size_t cnt;

	if (!turn)
		return;
	pinned = pinned_open(s, &cnt);
	for (size_t i = 0; i < cnt; i++) {
		const struct link_multi_info *link = &pinned[i].link;
		bool doubled = false;

		for (size_t k = 0; link->cnt && turn_of(link) == (turn & 1) && k < cnt; k++) {
			const struct link_multi_info *other = &pinned[k].link;

			doubled |= other->cnt && turn_of(other) != (turn & 1) &&
				other->prog_id == link->prog_id &&
				has_probe(other, link->offsets[0], link->cookies[0]);
		}
		if (doubled && !unlinkat(s->dir_fd, pinned[i].name, 0))
			mark_gone(s, link);
	}
	pinned_done(pinned, cnt);
	/* Before others of the same parity have calls. */
	unsee_gone(s);
	memset(s->gone, 0, s->fn_cnt);
}

/*
 * Replaces the links with parity @bit in a turn of the other parity, because the BPF programs
 * distinguish an old link from its replacement by that. Closes links of returns first, so that no
 * return is seen without its call.
 */
static int hand_over_turn(struct handing *h, char **names, size_t cnt, uint32_t bit)
{
	struct old_link *old = xcalloc(cnt + 1, sizeof(*old));
	struct fsn_ctl *ctl = h->s->ctl.addr;
	uint32_t turn = ctl->turns + 1;
	size_t before = h->replaced;
	int code = 0;

	while (!turn || (turn & 1) == bit)
		turn++;
	ctl->turns = turn;
	__atomic_store_n(&ctl->replaced_ns, clock_ns(CLOCK_MONOTONIC) + HANDOVER_NS, __ATOMIC_SEQ_CST);
	__atomic_store_n(&ctl->turn, turn, __ATOMIC_SEQ_CST);
	for (size_t i = 0; i < cnt; i++) {
		int one;

		old[i].fd = -1;
		one = replace_link(h->s, names[i], turn, &old[i]);
		h->replaced += old[i].fd >= 0;
		code = code ? code : one;
	}
	if (h->replaced > before) {
		close_all(h, old, cnt);
		unsee_gone(h->s);
	}
	if (code)
		remove_doubles(h->s);
	free(old);
	__atomic_store_n(&ctl->turn, 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&ctl->replaced_ns, clock_ns(CLOCK_MONOTONIC), __ATOMIC_SEQ_CST);
	return code;
}

/* Runs in a helper process, because an interrupted close leaves orphaned breakpoints. */
static void hand_over(void *arg)
{
	struct handing *h = arg;
	char **names = NULL;
	size_t cnt = 0;
	int code;

	if (h->s->again)
		remove_doubles(h->s);
	code = list_links(h->s->dir_fd, &names, &cnt);
	h->s->splits = cnt <= SPLIT_MAX;
	for (uint32_t bit = 0; !code && bit < 2; bit++)
		code = hand_over_turn(h, names, cnt, bit);
	for (size_t i = 0; i < cnt; i++)
		free(names[i]);
	free(names);
	h->code = code;
}

/* False if the group was detached, or replaced by another one of that name. */
static bool shed_is_there(const struct shed *s)
{
	struct stat own;

	return !fstat(s->dir_fd, &own) && bpffs_is_still(s->fs->fd, s->name, &own);
}

/*
 * Called while the process lives that replaces links: if both are killed, times come back soon. The
 * last store of that process stays.
 */
static void extend_handover(void *arg)
{
	struct fsn_ctl *ctl = arg;
	unsigned long long until = __atomic_load_n(&ctl->replaced_ns, __ATOMIC_SEQ_CST);

	if (__atomic_load_n(&ctl->turn, __ATOMIC_SEQ_CST))
		__atomic_compare_exchange_n(&ctl->replaced_ns, &until,
			clock_ns(CLOCK_MONOTONIC) + HANDOVER_NS, false, __ATOMIC_SEQ_CST,
			__ATOMIC_SEQ_CST);
}

/* Ends a handover whose process was killed, after all of its links are closed. */
static void mend_killed(const struct shed *s)
{
	unsee_gone(s);
	(void)!breaks_heal(s->dir_fd);
}

/* Returns -EINTR if the process was killed that replaces links: to be called again later. */
static int remove_probes(struct shed *s)
{
	_cleanup_free_ uint32_t *limits = NULL;
	struct fsn_ctl *ctl = s->ctl.addr;
	struct handing *h;
	int code = bpffs_lock(s->fs, NULL);

	if (code)
		return code;
	if (!shed_is_there(s)) {
		bpffs_unlock(s->fs);
		return -ENOENT;
	}
	h = apart_alloc(sizeof(*h));
	*h = (struct handing) { .s = s, .code = -EINTR };
	limits = xcalloc(s->fn_cnt, sizeof(*limits));
	if (s->again)
		mend_killed(s);
	memset(s->gone, 0, s->fn_cnt);
	/* Before they lose calls: a reader does not know which links are replaced by now. */
	mark_left_out(s, limits, false);
	apart_run(hand_over, h, extend_handover, ctl);
	code = h->code ? h->code : h->replaced || s->again ? 0 : -EOPNOTSUPP;
	/* The kernel closes its links, or a process does: close_all(). */
	if (code == -EINTR)
		__atomic_store_n(&ctl->replaced_ns,
			clock_ns(CLOCK_MONOTONIC) + RETURNS_NS + ENTRIES_NS, __ATOMIC_SEQ_CST);
	else if (code && !h->replaced && !s->again)
		mark_left_out(s, limits, true);
	apart_free(h, sizeof(*h));
	bpffs_unlock(s->fs);
	return code;
}

/* --- looking ----------------------------------------------------------------------------------- */

static bool span_has_ended(const struct budget_span *span)
{
	return span->wall_ns >= SPAN_MAX ||
		(span->wall_ns >= SPAN_NS && span->used_ns >= SPAN_NS);
}

/* Removes the probes of the chosen functions, and starts a new span. */
static void leave_out_chosen(struct shed *s)
{
	int code = remove_probes(s);

	s->again = code == -EINTR || (s->again && code == -EBUSY);
	if (!code || s->again)
		return; /* a span has begun */
	s->over = code != -EBUSY;
	/* Their probes are still there. */
	for (uint32_t i = 0; i < s->fn_cnt; i++)
		if (!s->was[i])
			s->funcs[i].limit = LIMIT_NONE;
	begin_span(s);
}

void shed_step(struct shed *s)
{
	const struct fsn_ctl *ctl = s->ctl.addr;
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	struct budget_span span;
	bool ended;

	if (s->over || shed_left_ns(s))
		return;
	s->looked_ns = now;
	if (s->again) {
		if (!ns_until(__atomic_load_n(&ctl->replaced_ns, __ATOMIC_SEQ_CST)))
			leave_out_chosen(s);
		return;
	}
	span = read_span(s);
	ended = span_has_ended(&span);
	if ((ended || span.cost_ns >= harm_ns(s)) && budget_is_over(&span, s->share)) {
		if (choose(s, &span)) {
			leave_out_chosen(s);
			return;
		}
		if (!s->over_share)
			s->over_share =
				(__uint128_t)span.cost_ns * FSN_SHARE_ALL / span.own_ns;
		begin_span(s);
	} else if (ended) {
		begin_span(s);
	}
}

uint64_t shed_left_ns(const struct shed *s)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC),
		 wait = now - s->begun_ns < YOUNG_NS ? SOON_NS : LATE_NS;

	if (s->over)
		return S_NS;
	return now - s->looked_ns < wait ? s->looked_ns + wait - now : 0;
}

uint64_t shed_over_share(const struct shed *s)
{
	return s->over_share;
}

size_t shed_tell(const struct shed *s, struct draft *draft)
{
	size_t cnt = 0;

	for (uint32_t i = 0; i < draft->probed_cnt; i++) {
		struct target *t = &draft->targets[i];

		if (s->funcs[i].limit != LIMIT_LEFT_OUT)
			continue;
		t->limit = LIMIT_LEFT_OUT;
		t->cost_ns = s->funcs[i].calls;
		t->calls_per_s = s->funcs[i].calls_per_s;
		cnt++;
	}
	return cnt;
}

int shed_pids_fd(const struct shed *s)
{
	return s->pids_fd;
}

void shed_free(struct shed *s)
{
	if (!s)
		return;
	for (uint32_t i = 0; s->lib_fd && i < group_info(s->group).lib_cnt; i++)
		close_fd(s->lib_fd[i]);
	group_free(s->group);
	map_munmap(&s->stats);
	map_munmap(&s->ctl);
	map_munmap(&s->places);
	load_done(&s->load);
	close_fd(s->dir_fd);
	close_fd(s->pids_fd);
	free(s->lib_fd);
	apart_free(s->from, from_size(s->fn_cnt));
	apart_free(s->gone, s->fn_cnt + 1);
	apart_free(s->funcs, (s->fn_cnt + 1) * sizeof(*s->funcs));
	free(s->shown);
	free(s->was);
	free(s);
}

static int open_maps(struct shed *s, bool children)
{
	_cleanup_close_ int ctl_fd = -1, places_fd = -1;
	int code = bpffs_open_group(s->fs, s->name, &s->dir_fd, NULL);

	if (!code)
		code = counters_map(s->dir_fd, &s->stats, &s->rows);
	if (code)
		return code;
	ctl_fd = bpffs_get(s->dir_fd, map_pin_name(MAPID_CTL), 0);
	if (ctl_fd < 0)
		return ctl_fd;
	places_fd = bpffs_get(s->dir_fd, map_pin_name(MAPID_PLACES), 0);
	code = map_check(places_fd, MAPID_PLACES, 0, &s->place_cnt);
	if (!code)
		code = map_mmap(places_fd, s->place_cnt * sizeof(struct fsn_place), &s->places);
	if (code)
		return code;
	if (children)
		s->pids_fd = bpffs_get(s->dir_fd, map_pin_name(MAPID_PIDS), 0);
	return map_mmap(ctl_fd, sizeof(struct fsn_ctl), &s->ctl);
}

static struct shed *shed_alloc(const char *name, struct bpffs *fs, uint32_t fn_cnt)
{
	struct shed *s = xcalloc(1, sizeof(*s));
	size_t cnt = fn_cnt + 1;

	*s = (struct shed) { .fs = fs, .fn_cnt = fn_cnt, .dir_fd = -1, .pids_fd = -1 };
	snprintf(s->name, sizeof(s->name), "%s", name);
	s->from = apart_alloc(from_size(fn_cnt));
	s->gone = apart_alloc(cnt);
	s->funcs = apart_alloc(cnt * sizeof(*s->funcs));
	s->shown = xcalloc(cnt, sizeof(*s->shown));
	s->was = xcalloc(cnt, sizeof(*s->was));
	return s;
}

int shed_new(const struct draft *draft, const struct attach_opts *opts, const struct price *price,
	struct bpffs *fs, struct shed **ret_shed)
{
	struct shed *s;
	int code = 0;

	*ret_shed = NULL;
	if (!opts->budget.share || !price->at_ns || !draft_has_files(draft))
		return 0;
	s = shed_alloc(draft->name, fs, draft->probed_cnt);
	s->draft = draft;
	s->share = opts->budget.share;
	s->price = *price;
	if (opts->filter.pid_cnt)
		load_new(opts->filter.pids, opts->filter.pid_cnt, &s->load);
	else
		code = stage_load(draft, opts, &s->load, NULL);
	if (!code)
		code = open_maps(s, opts->children);
	for (uint32_t i = 0; !code && i < s->fn_cnt; i++) {
		s->shown[i] = target_shown(&draft->targets[i]);
		s->funcs[i] = (struct budget_func) { .entry_ns = 1, .whole_ns = 1,
			.exact = !opts->budget.trims || budget_is_exact(draft, &draft->targets[i]) };
	}
	if (code) {
		shed_free(s);
		return code;
	}
	s->begun_ns = clock_ns(CLOCK_MONOTONIC);
	begin_span(s);
	*ret_shed = s;
	return 0;
}

/* --- a group that is known only by its pins ------------------------------------------------- */

/* Opens the files of the group's functions that still exist. */
static void open_files(struct shed *s)
{
	uint32_t cnt = group_info(s->group).lib_cnt;

	s->lib_fd = xcalloc(cnt + 1, sizeof(*s->lib_fd));
	for (uint32_t i = 0; i < cnt; i++)
		s->lib_fd[i] = group_lib_stale(s->group, i) ? -1 :
			proc_open_regular(group_lib(s->group, i), NULL);
}

/* Lists the processes that map the group's files. */
static int list_mappers(
	const struct shed *s, struct procs *procs, pid_t **ret_pids, size_t *ret_cnt)
{
	uint32_t cnt = group_info(s->group).lib_cnt;
	_cleanup_free_ struct mappers_file *files = xcalloc(cnt + 1, sizeof(*files));

	for (uint32_t i = 0; i < cnt; i++)
		files[i] = (struct mappers_file) { s->group->libs[i].dev, s->group->libs[i].ino,
			group_lib(s->group, i) };
	return mappers_list(procs, files, cnt, ret_pids, ret_cnt, NULL);
}

/* Starts measuring the CPU time of the traced processes. */
static int find_load(struct shed *s, struct procs *procs)
{
	_cleanup_asked_ struct asked asked;
	_cleanup_free_ pid_t *pids = NULL;
	size_t cnt = 0;
	int code = asked_read(s->group, &asked);

	if (code)
		return code;
	if (asked.pid_cnt) {
		pids = xcalloc(asked.pid_cnt, sizeof(*pids));
		for (; cnt < asked.pid_cnt; cnt++)
			pids[cnt] = (pid_t)asked.pids[cnt];
	} else {
		code = list_mappers(s, procs, &pids, &cnt);
	}
	/* Without processes, all CPUs of the machine are the reference. */
	if (!code && cnt && !s->load.cnt) {
		load_done(&s->load);
		load_new(pids, cnt, &s->load);
	}
	for (size_t i = 0; !code && i < cnt; i++)
		load_add(&s->load, pids[i]);
	return code;
}

static void read_funcs(struct shed *s)
{
	for (uint32_t i = 0; i < s->fn_cnt; i++) {
		const struct fsn_func *f = &s->group->funcs[i];

		s->shown[i] = group_func(s->group, i);
		s->funcs[i] = (struct budget_func) { .entry_ns = 1, .whole_ns = 1,
			.exact = f->exact || !s->shown[i].in_file || s->lib_fd[f->lib] < 0,
			.limit = f->limit == LIMIT_LEFT_OUT ? LIMIT_LEFT_OUT : LIMIT_NONE };
	}
}

static int shed_new_group(
	const char *name, struct bpffs *fs, struct procs *procs, struct shed **ret_shed)
{
	struct group *group = NULL;
	struct shed *s;
	int code = group_open(fs, name, true, &group, NULL);

	*ret_shed = NULL;
	if (code) {
		group_free(group);
		return code;
	}
	s = shed_alloc(name, fs, group_info(group).fn_cnt);
	s->group = group;
	s->share = group_info(group).budget;
	s->price = group_info(group).price;
	if (s->share && s->price.at_ns) {
		open_files(s);
		load_new(NULL, 0, &s->load);
	} else {
		code = -ENOENT;
	}
	if (!code)
		code = find_load(s, procs);
	if (!code)
		code = open_maps(s, false);
	if (code) {
		shed_free(s);
		return code;
	}
	read_funcs(s);
	begin_span(s); /* .begun_ns is 0: looks are rare from the start */
	*ret_shed = s;
	return 0;
}

/*
 * Finds processes among @procs that map the files of a shed_new_group() by now, and starts a new
 * span. Returns false if the group is gone, or nothing is left to do.
 */
static bool shed_look(struct shed *s, struct procs *procs)
{
	if (!shed_is_there(s))
		return false;
	if (find_load(s, procs))
		s->over = true;
	begin_span(s);
	return !s->over;
}

/* --- the process that limits the overhead of groups after their command has exited ---------- */

#define LOOK_NS 2500000000ULL /* between looks for processes */

struct guarded {
	char name[GROUP_NAME_MAX + 1];
};

struct guard {
	struct bpffs fs;
	struct shed **of; /* NULL: gone */
	size_t cnt;
};

static void guard_add(struct guard *g, struct procs *procs, const char *name)
{
	struct shed *s = NULL;

	if (shed_new_group(name, &g->fs, procs, &s))
		return;
	*array_add(g->of, g->cnt) = s;
}

/* Drops groups that are gone. Returns the number left. */
static size_t guard_look(struct guard *g)
{
	_cleanup_procs_ struct procs *procs = procs_new("/proc");
	size_t kept = 0;

	for (size_t i = 0; i < g->cnt; i++) {
		if (shed_look(g->of[i], procs))
			g->of[kept++] = g->of[i];
		else
			shed_free(g->of[i]);
	}
	return g->cnt = kept;
}

/* Time until the next shed_step(). */
static uint64_t guard_wait_ns(const struct guard *g)
{
	uint64_t ns = LOOK_NS;

	for (size_t i = 0; i < g->cnt; i++) {
		uint64_t left = shed_left_ns(g->of[i]);

		ns = left < ns ? left : ns;
	}
	return ns;
}

/*
 * Drops a group as soon as it is gone, because a detach waits until its maps are closed. False if
 * no group is left.
 */
static bool guard_is_there(struct guard *g)
{
	for (size_t i = 0; i < g->cnt; i++)
		if (!shed_is_there(g->of[i]))
			return guard_look(g);
	return g->cnt;
}

static void guard_stay(const char *dir, int fd)
{
	struct guard g = { .fs = BPFFS_NONE };
	struct procs *procs = NULL;
	struct guarded of;
	uint64_t end, look;
	ssize_t n;

	/* The command sends names of groups until it exits. */
	while ((n = read(fd, &of, sizeof(of))) == sizeof(of) || (n < 0 && errno == EINTR)) {
		if (n < 0)
			continue;
		if (g.fs.fd < 0) {
			if (bpffs_open(dir, false, &g.fs, NULL))
				_exit(0);
			procs = procs_new("/proc");
		}
		guard_add(&g, procs, of.name);
	}
	procs_free(procs);
	if (!g.cnt || chdir("/"))
		_exit(0);
	end = clock_ns(CLOCK_MONOTONIC) + GUARD_NS;
	look = clock_ns(CLOCK_MONOTONIC) + LOOK_NS;
	while (ns_until(end) && guard_is_there(&g)) {
		if (!ns_until(look)) {
			if (!guard_look(&g))
				break;
			look = clock_ns(CLOCK_MONOTONIC) + LOOK_NS;
		}
		for (size_t i = 0; i < g.cnt; i++)
			shed_step(g.of[i]);
		sleep_ns(guard_wait_ns(&g) + 1);
	}
	_exit(0);
}

/* For tests: "none" starts no process; "off" also disables the limit in the BPF programs. */
static bool is_set_to(const char *word)
{
	const char *how = secure_getenv("FUNCSNOOP_GUARD");

	return how && !strcmp(how, word);
}

bool guard_is_off(void)
{
	return is_set_to("off");
}

int guard_start(const char *dir, int *ret_fd, struct err *err)
{
	if (is_set_to("none") || is_set_to("off"))
		return 0;
	return stay_start("funcsnoop-bound", dir, guard_stay, ret_fd, err);
}

void guard_tell(int fd, const char *name)
{
	struct guarded of = {};

	snprintf(of.name, sizeof(of.name), "%s", name);
	stay_tell(fd, &of, sizeof(of));
}
