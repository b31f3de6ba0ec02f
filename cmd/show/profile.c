// SPDX-License-Identifier: BSD-2-Clause
// Stacks in forms that other programs show: folded lines, a flame graph, a profile for pprof.
#include <endian.h>
#include <sys/utsname.h>

#include "base/buffer.h"
#include "base/util.h"
#include "show/stacks.h"

/* The default metric of stacks: calls; for waits and GPU activity, time. */
static enum figure_id stacks_figure(const struct report *r)
{
	if (r->choice->sorted)
		return r->choice->sort;
	for (size_t i = 0; i < r->cnt; i++)
		if (!group_info(r->group[i].s->group).gpu &&
			strcmp(group_func(r->group[i].s->group, 0).kind, "wait"))
			return FIGURE_CALLS;
	return FIGURE_TOTAL;
}

/* --- folded --------------------------------------------------------------------------------- */

struct folding {
	FILE *f;
	enum figure_id sort;
};

/* A frame in a line of frames with ';' between them. */
static void put_frame(FILE *f, const char *name)
{
	_cleanup_free_ char *safe = text_escape(name);

	for (const char *p = safe; *p; p++)
		fputc(*p == ';' ? ':' : *p, f);
}

static void print_folded_row(struct stacks *s, const struct stack *stack, const char *func,
	const struct stats_row *row, void *arg)
{
	const struct folding *to = arg;
	uint64_t value = stack_value(row, to->sort);
	const char *cut = stack_cut(stack);

	if (to->sort == FIGURE_TOTAL)
		value /= 1000;
	if (!value)
		return;
	if (cut)
		fprintf(to->f, "%s;", cut);
	for (size_t i = stack->cnt; i--;) {
		size_t cnt = 0;
		const struct frame_name *names = stack_names(s, stack, i, row->pid, &cnt);

		while (cnt--) {
			put_frame(to->f, names[cnt].text);
			if (cnt || i || func)
				fputc(';', to->f);
		}
	}
	if (func)
		put_frame(to->f, func);
	fprintf(to->f, " %llu\n", (unsigned long long)value);
}

/* The format of difffolded.pl, which flamegraph.pl reads: the stack, its value before, its value now. */
static void print_changes(const struct report_group *rg, enum figure_id sort, FILE *f)
{
	uint64_t per = sort == FIGURE_TOTAL ? 1000 : 1;
	size_t cnt;
	_cleanup_free_ struct stack_change *changes = stack_changes(rg, &cnt);

	for (size_t i = 0; i < cnt; i++) {
		const struct stack_change *c = &changes[i];
		uint64_t was = stack_change_value(&c->was, sort) / per,
			 now = stack_change_value(&c->now, sort) / per;

		if (!was && !now)
			continue;
		for (const char *p = c->stack; *p; p += strlen(p) + 1) {
			put_frame(f, p);
			if (c->func || p[strlen(p) + 1])
				fputc(';', f);
		}
		if (c->func)
			put_frame(f, c->func);
		fprintf(f, " %llu %llu\n", (unsigned long long)was, (unsigned long long)now);
	}
}

int print_folded(const struct report *r, FILE *f)
{
	struct folding to = { f, stacks_figure(r) };

	for (size_t i = 0; i < r->cnt; i++)
		if (r->view->flags & VIEW_DIFF)
			print_changes(&r->group[i], to.sort, f);
		else
			each_stack_row(&r->group[i], print_folded_row, &to);
	stackless_notes(r);
	return 0;
}

/* --- a flame graph -------------------------------------------------------------------------- */

/*
 * The HTML page, in which @DATA@ is replaced by the data. The symbols are hidden instead of local,
 * because the arm64 linker makes a single GOT entry for all local symbols of a section.
 */
__asm__(".pushsection .rodata\n"
	".globl flame_page_start, flame_page_end\n"
	"flame_page_start:\n"
	".incbin \"cmd/show/flame.html\"\n"
	"flame_page_end:\n"
	".byte 0\n"
	".popsection\n");
extern const char flame_page_start[] __attribute__((visibility("hidden")));
extern const char flame_page_end[] __attribute__((visibility("hidden")));
#define FLAME_DATA "@DATA@"

DEFINE_POINTER_ORDER(compare_names, struct node, strcmp(x->name, y->name))

/* Writes a string literal for a script; escaped so that it cannot end the script element. */
static void put_string(FILE *f, const char *text)
{
	_cleanup_free_ char *safe = text_escape(text);

	fputc('"', f);
	for (const char *p = safe; *p; p++)
		if (strchr("\"\\<>&", *p))
			fprintf(f, "\\u%04x", (unsigned int)*p);
		else
			fputc(*p, f);
	fputc('"', f);
}

/* Numbers of the names that are of Python's frames. */
static void put_python(struct node *const *by_name, uint32_t cnt, FILE *f)
{
	unsigned int last = 0;

	fputs("\"python\":[", f);
	for (uint32_t i = 0; i < cnt; i++) {
		if (!by_name[i]->is_python || by_name[i]->name_id == last)
			continue;
		fprintf(f, last ? ",%u" : "%u", by_name[i]->name_id);
		last = by_name[i]->name_id;
	}
	fputs("],", f);
}

/* Each name once: nodes have its number. */
static void put_names(struct trie *t, FILE *f)
{
	_cleanup_free_ struct node **by_name = xcalloc(t->cnt + 1, sizeof(struct node *));
	unsigned int cnt = 0;

	for (uint32_t i = 0; i < t->cnt; i++)
		by_name[i] = &t->nodes[i];
	qsort(by_name, t->cnt, sizeof(struct node *), compare_names);
	fputs("\"names\":[\"all\"", f);
	for (uint32_t i = 0; i < t->cnt; i++) {
		if (!i || strcmp(by_name[i]->name, by_name[i - 1]->name)) {
			fputc(',', f);
			put_string(f, by_name[i]->name);
			cnt++;
		}
		by_name[i]->name_id = cnt;
	}
	fputs("],", f);
	put_python(by_name, t->cnt, f);
}

/* Figures that a reader can choose; some need --memory or --split. */
static const struct {
	const char *name, *unit;
	enum figure_id id;
	bool of_memory, of_split;
} chosen[] = {
	{ .id = FIGURE_CALLS, .name = "calls", .unit = "count" },
	{ .id = FIGURE_TOTAL, .name = "time", .unit = "ns" },
	{ .id = FIGURE_ERRORS, .name = "errors", .unit = "count" },
	{ .id = FIGURE_LIVE, .name = "bytes", .unit = "bytes", .of_memory = true },
	{ .id = FIGURE_EXIT, .name = "bytes at exit", .unit = "bytes", .of_memory = true },
	{ .id = FIGURE_ON_CPU, .name = "on CPU", .unit = "ns", .of_split = true },
	{ .id = FIGURE_QUEUED, .name = "queued", .unit = "ns", .of_split = true },
	{ .id = FIGURE_BLOCKED, .name = "blocked", .unit = "ns", .of_split = true },
};

static bool can_choose(const struct trie *t, size_t i)
{
	return (!chosen[i].of_memory || t->holds) && (!chosen[i].of_split || t->split);
}

/* The word for "calls", if all groups count the same thing. */
static const char *counted_word(const struct report *r)
{
	static const char *const words[][2] = { { "sample", "samples" }, { "wait", "waits" },
		{ "gpu", "kernels" } };
	size_t cnt[ARRAY_SIZE(words)] = {}, all = 0, sleeps = 0;

	for (size_t i = 0; i < r->cnt; i++) {
		const struct report_group *rg = &r->group[i];

		sleeps += rg->sleeps;
		for (size_t k = 0; k < rg->s->func_cnt; k++, all++)
			for (size_t w = 0; w < ARRAY_SIZE(words); w++)
				cnt[w] += !strcmp(words[w][0], group_func(rg->s->group, rg->s->funcs[k].fn).kind);
	}
	for (size_t w = 0; w < ARRAY_SIZE(words); w++)
		if (all && cnt[w] == all)
			return words[w][1];
	return sleeps && sleeps == r->cnt ? "sleeps" : "calls";
}

/*
 * Writes the name of the group. A group of run has no PID suffix there; one without a name is
 * titled by its functions: "malloc and 3 more".
 */
static void put_title(const struct report_group *rg, FILE *f)
{
	char title[GROUP_NAME_MAX + 512], end[32];
	size_t len, end_len;

	snprintf(title, sizeof(title), "%s", group_info(rg->s->group).name);
	snprintf(end, sizeof(end), "-%d", getpid());
	len = strlen(title);
	end_len = strlen(end);
	if (len > end_len && !strcmp(title + len - end_len, end)) {
		title[len - end_len] = '\0';
		if (!strcmp(title, "run") && rg->s->func_cnt)
			snprintf(title, sizeof(title), rg->s->func_cnt > 1 ? "%.400s and %zu more" : "%.400s",
				group_func_name(rg->s->group, rg->s->funcs[0].fn), rg->s->func_cnt - 1);
	}
	put_string(f, title);
}

static void put_figures(const struct trie *t, const char *counted, enum figure_id sort, FILE *f)
{
	size_t at = 1, n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(chosen); i++) {
		if (can_choose(t, i) && chosen[i].id == sort)
			at = n;
		n += can_choose(t, i);
	}
	fprintf(f, ",\"chosen\":%zu,\"figures\":[", at);
	for (size_t i = 0; i < ARRAY_SIZE(chosen); i++)
		if (can_choose(t, i))
			fprintf(f, "%s{\"name\":\"%s\",\"unit\":\"%s\"}", i ? "," : "",
				chosen[i].id == FIGURE_CALLS ? counted : chosen[i].name, chosen[i].unit);
	fputs("],", f);
}

static void put_row(const struct trie *t, FILE *f, const struct stats_row *row)
{
	for (size_t i = 0; i < ARRAY_SIZE(chosen); i++)
		if (can_choose(t, i))
			fprintf(f, "%llu,", (unsigned long long)stack_value(row, chosen[i].id));
}

static void put_values(const struct trie *t, FILE *f, unsigned int name_id,
	const struct stats_row *row, const struct stats_row *was)
{
	fprintf(f, "[%u,", name_id);
	put_row(t, f, row);
	if (was)
		put_row(t, f, was);
	fputc('[', f);
}

/* Writes @first, its siblings and their subtrees. The depth is limited by that of stack walks. */
static void put_nodes(const struct trie *t, uint32_t first, FILE *f)
{
	for (uint32_t i = first; i != NO_NODE; i = t->nodes[i].next) {
		if (i != first)
			fputc(',', f);
		put_values(t, f, t->nodes[i].name_id, &t->nodes[i].row, t->was ? &t->was[i] : NULL);
		put_nodes(t, t->nodes[i].first, f);
		fputs("]]", f);
	}
}

static const char *host_and_time(time_t seconds, char to[128])
{
	struct utsname host;
	char at[32];
	struct tm tm;

	if (uname(&host))
		*host.nodename = '\0';
	strftime(at, sizeof(at), "%Y-%m-%d %H:%M:%S UTC", gmtime_r(&seconds, &tm));
	snprintf(to, 128, "%s, %s", host.nodename, at);
	return to;
}

/* The host, the time of the reading, its duration, and the command that has attached the group. */
static void put_about(const struct report *r, FILE *f)
{
	const struct report_group *rg = &r->group[0];
	_cleanup_asked_ struct asked asked = {};
	uint64_t ns = r->interval_ns;
	struct out text = {};
	char host[128];

	if (!ns && r->time_ns > rg->s->since_ns)
		ns = r->time_ns - rg->s->since_ns;
	out_printf(&text, "%s, %.1f s", host_and_time(r->time_ns / 1000000000, host), ns / 1e9);
	if (r->cnt == 1 && !asked_read(rg->s->group, &asked) && asked.argv_bytes) {
		out_char(&text, ':');
		for (const char *p = asked.argv; p < asked.argv + asked.argv_bytes; p += strlen(p) + 1)
			out_printf(&text, " %s", p);
	}
	out_char(&text, '\0');
	fputs(",\"about\":", f);
	put_string(f, text.buf);
	out_done(&text);
}

static void put_data(const struct report *r, struct trie *t, bool by_process, FILE *f)
{
	enum figure_id sort = stacks_figure(r);
	uint32_t first = trie_order(t, sort);
	struct stats_row all = {}, was = {};

	for (uint32_t i = first; i != NO_NODE; i = t->nodes[i].next) {
		stats_row_add(&all, &t->nodes[i].row);
		if (t->was)
			stats_row_add(&was, &t->was[i]);
	}
	t->holds = all.allocates || was.allocates;
	fputs("{\"title\":", f);
	if (r->cnt == 1)
		put_title(&r->group[0], f);
	else
		put_string(f, "all groups");
	put_about(r, f);
	put_figures(t, counted_word(r), sort, f);
	if (by_process)
		fputs("\"processes\":true,", f);
	put_names(t, f);
	fputs(t->was ? "\"was\":true,\"root\":" : "\"root\":", f);
	put_values(t, f, 0, &all, t->was ? &was : NULL);
	put_nodes(t, first, f);
	fputs("]]}", f);
}

/* The processes of all rows: their nodes are the roots of the graph if there are several. */
struct process_name {
	pid_t pid; /* 0: exited processes, and those that are counted together */
	uint64_t start_ns;
	char name[64];
};

struct flame {
	struct trie trie;
	struct process_name **process;
	size_t process_cnt;
};

static void flame_done(struct flame *flame)
{
	for (size_t i = 0; i < flame->process_cnt; i++)
		free(flame->process[i]);
	free(flame->process);
	trie_done(&flame->trie);
}

static struct process_name *process_of(const struct flame *flame, const struct stats_row *row)
{
	for (size_t i = 0; i < flame->process_cnt; i++)
		if (flame->process[i]->pid == row->pid && flame->process[i]->start_ns == row->start_ns)
			return flame->process[i];
	return NULL;
}

static void note_process(struct stacks *s, const struct stack *stack, const char *func,
	const struct stats_row *row, void *arg)
{
	struct flame *flame = arg;
	struct process_name *new;

	if (process_of(flame, row))
		return;
	*array_add(flame->process, flame->process_cnt) = new = xcalloc(1, sizeof(*new));
	new->pid = row->pid;
	new->start_ns = row->start_ns;
	if (row->pid)
		snprintf(new->name, sizeof(new->name), "%.16s (%d)", row->comm, row->pid);
	else
		snprintf(new->name, sizeof(new->name), "exited processes");
}

static void take_row(struct stacks *s, const struct stack *stack, const char *func,
	const struct stats_row *row, void *arg)
{
	struct flame *flame = arg;
	uint32_t at = NO_NODE;

	if (flame->process_cnt > 1)
		trie_pass(&flame->trie, &at, process_of(flame, row)->name, row, NULL);
	trie_take_below(&flame->trie, at, s, stack, func, row);
}

int print_flame(const struct report *r, FILE *f)
{
	const char *at = strstr(flame_page_start, FLAME_DATA);
	__cleanup(flame_done) struct flame flame = {};
	bool diff = r->view->flags & VIEW_DIFF;
	struct trie *t = &flame.trie;

	for (size_t i = 0; !diff && i < r->cnt; i++)
		each_stack_row(&r->group[i], note_process, &flame);
	for (size_t i = 0; i < r->cnt; i++) {
		t->split |= stacks_are_split(&r->group[i]);
		if (diff)
			trie_take_changes(t, &r->group[i]);
		else
			each_stack_row(&r->group[i], take_row, &flame);
	}
	fwrite(flame_page_start, 1, at - flame_page_start, f);
	put_data(r, t, flame.process_cnt > 1, f);
	at += sizeof(FLAME_DATA) - 1;
	fwrite(at, 1, flame_page_end - at, f);
	stackless_notes(r);
	return 0;
}

void print_flame_threads(struct trie *t, const char *title, FILE *f)
{
	const char *at = strstr(flame_page_start, FLAME_DATA);
	uint32_t first = trie_order(t, FIGURE_CALLS);
	struct stats_row all = {};
	char about[128];

	for (uint32_t i = first; i != NO_NODE; i = t->nodes[i].next)
		stats_row_add(&all, &t->nodes[i].row);
	fwrite(flame_page_start, 1, at - flame_page_start, f);
	fputs("{\"title\":", f);
	put_string(f, title);
	fputs(",\"about\":", f);
	put_string(f, host_and_time(time(NULL), about));
	put_figures(t, "threads", FIGURE_CALLS, f);
	put_names(t, f);
	fputs("\"root\":", f);
	put_values(t, f, 0, &all, NULL);
	put_nodes(t, first, f);
	fputs("]]}", f);
	at += sizeof(FLAME_DATA) - 1;
	fwrite(at, 1, flame_page_end - at, f);
}

/* --- pprof: profile.proto, not compressed --------------------------------------------------- */

/* Field numbers of profile.proto and of its messages. */
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

/* @about lives as long as @name. With the whole path: files of other directories have the same name. */
static void put_location(struct pprof *p, const char *name, const struct frame_name *about)
{
	const bool placed = about && about->line;
	_cleanup_free_ char *own = placed
		? xasprintf("%s %s:%u", about->text, about->source, about->line)
		: NULL;
	uint32_t cnt = p->names.cnt;
	const struct node *n = trie_enter(&p->names, NO_NODE, placed ? own : name);

	p->about = array_grow(p->about, cnt, sizeof(struct frame_name *));
	if (p->names.cnt > cnt) {
		p->about[cnt] = placed ? about : NULL;
		own = NULL;
	}
	proto_varint(&p->ids, n - p->names.nodes + 1);
}

/* The innermost location is the called function. */
static void put_sample(struct stacks *s, const struct stack *stack, const char *func,
	const struct stats_row *row, void *arg)
{
	struct pprof *p = arg;
	const char *cut = stack_cut(stack);

	p->ids.len = p->sample.len = 0;
	if (func)
		put_location(p, func, NULL);
	for (size_t i = 0; i < stack->cnt; i++) {
		size_t cnt = 0;
		const struct frame_name *names = stack_names(s, stack, i, row->pid, &cnt);

		for (size_t k = 0; k < cnt; k++)
			put_location(p, names[k].text, &names[k]);
	}
	if (cut)
		put_location(p, cut, NULL);
	proto_bytes(&p->sample, SAMPLE_LOCATIONS, p->ids.buf, p->ids.len);
	p->ids.len = 0;
	proto_varint(&p->ids, row->n.calls);
	proto_varint(&p->ids, stack_value(row, FIGURE_TOTAL));
	proto_varint(&p->ids, row->n.errors);
	proto_bytes(&p->sample, SAMPLE_VALUES, p->ids.buf, p->ids.len);
	proto_bytes(&p->out, PROFILE_SAMPLE, p->sample.buf, p->sample.len);
	stats_row_add(&p->sum, row);
}

/* Sample values: calls, time in ns, failed calls. */
static void put_types(struct pprof *p)
{
	static const unsigned char types[][2] = { { 1, 2 }, { 3, 4 }, { 5, 2 } };

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		p->ids.len = 0;
		proto_u64(&p->ids, TYPE_TYPE, types[i][0]);
		proto_u64(&p->ids, TYPE_UNIT, types[i][1]);
		proto_bytes(&p->out, PROFILE_TYPE, p->ids.buf, p->ids.len);
	}
}

static void put_text(struct out *o, const char *text)
{
	_cleanup_free_ char *safe = text_escape(text);

	proto_str(o, PROFILE_STRING, safe);
}

/* Each name has two strings: the function and its file, which may be "". */
#define NAME_STRING(i) (2 * (i) + ARRAY_SIZE(pprof_words))

/* Writes one location per name, because addresses in mapped files are not known. */
static void put_tables(struct pprof *p)
{
	for (uint32_t i = 0; i < p->names.cnt; i++) {
		p->ids.len = p->sample.len = 0;
		proto_u64(&p->ids, LINE_FUNCTION, i + 1);
		if (p->about[i])
			proto_u64(&p->ids, LINE_LINE, p->about[i]->line);
		proto_u64(&p->sample, LOCATION_ID, i + 1);
		proto_bytes(&p->sample, LOCATION_LINE, p->ids.buf, p->ids.len);
		proto_bytes(&p->out, PROFILE_LOCATION, p->sample.buf, p->sample.len);
		p->ids.len = 0;
		proto_u64(&p->ids, FUNCTION_ID, i + 1);
		proto_u64(&p->ids, FUNCTION_NAME, NAME_STRING(i));
		proto_u64(&p->ids, FUNCTION_FILE, NAME_STRING(i) + 1);
		proto_bytes(&p->out, PROFILE_FUNCTION, p->ids.buf, p->ids.len);
	}
	for (size_t i = 0; i < ARRAY_SIZE(pprof_words); i++)
		proto_str(&p->out, PROFILE_STRING, pprof_words[i]);
	for (uint32_t i = 0; i < p->names.cnt; i++) {
		const struct frame_name *about = p->about[i];

		put_text(&p->out, about ? about->name : p->names.nodes[i].name);
		put_text(&p->out, about ? about->source : "");
	}
}

/* RFC 1952 with stored blocks: readers require the format, but not compression. */
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

	put_types(&p);
	for (size_t i = 0; i < r->cnt; i++) {
		each_stack_row(&r->group[i], put_sample, &p);
		if (r->group[i].elapsed_ns > elapsed_ns)
			elapsed_ns = r->group[i].elapsed_ns;
	}
	put_tables(&p);
	proto_u64(&p.out, PROFILE_TIME, r->time_ns - elapsed_ns);
	proto_u64(&p.out, PROFILE_DURATION, elapsed_ns);
	proto_u64(&p.out, PROFILE_DEFAULT,
		stacks_figure(r) == FIGURE_CALLS || !stack_value(&p.sum, FIGURE_TOTAL) ? 1 : 3);
	put_gzip(f, (const unsigned char *)p.out.buf, p.out.len);
	stackless_notes(r);
	return 0;
}
