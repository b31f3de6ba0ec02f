// SPDX-License-Identifier: BSD-2-Clause
// Output: numbers and names as people read them, messages, whole JSON documents, and files written
// in whole lines.
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "base/buffer.h"
#include "base/file.h"
#include "base/text.h"
#include "base/util.h"
#include "find/find.h"
#include "group/group.h"
#include "show/text.h"
#include "stats/figures.h"

bool text_color(const struct globals *g)
{
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

	if (g->color != COLOR_AUTO)
		return g->color == COLOR_ALWAYS;
	return !(no && *no) && !(term && !strcmp(term, "dumb")) && isatty(STDOUT_FILENO);
}

static unsigned int width_set;

void text_set_width(unsigned int columns)
{
	width_set = columns;
}

unsigned int text_width(void)
{
	struct winsize size;

	if (width_set)
		return width_set;
	if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size))
		return 0;
	return size.ws_col;
}

char *text_escape(const char *str)
{
	struct out o = {};
	char *fit;

	out_escaped(&o, str, SIZE_MAX);
	out_char(&o, '\0');
	/* Tables keep thousands of them, each begun with a page. */
	fit = realloc(o.buf, o.len);
	return fit ? fit : o.buf;
}

const char *text_duration(uint64_t ns, char buf[TEXT_NUM_LEN])
{
	static const char *const units[] = { "ns", "us", "ms", "s" };
	double value = ns;
	int unit = 0;

	while (unit < 3 && value >= 999.5) {
		value /= 1000;
		unit++;
	}
	snprintf(buf, TEXT_NUM_LEN, "%.*f %s",
		unit == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2, value, units[unit]);
	return buf;
}

const char *text_time(uint64_t realtime_ns, char buf[TEXT_NUM_LEN])
{
	time_t t = realtime_ns / 1000000000ULL;
	struct tm tm;

	gmtime_r(&t, &tm);
	strftime(buf, TEXT_NUM_LEN, "%Y-%m-%dT%H:%M:%SZ", &tm);
	return buf;
}

const char *text_moment(uint64_t realtime_ns, char buf[TEXT_NUM_LEN])
{
	time_t t = realtime_ns / 1000000000ULL, now = time(NULL);
	struct tm tm, today;
	size_t len;

	localtime_r(&t, &tm);
	localtime_r(&now, &today);
	len = strftime(buf, TEXT_NUM_LEN,
		tm.tm_yday == today.tm_yday && tm.tm_year == today.tm_year ? "%H:%M:%S"
									   : "%Y-%m-%d %H:%M:%S",
		&tm);
	snprintf(buf + len, TEXT_NUM_LEN - len, ".%06u",
		(unsigned int)(realtime_ns / 1000 % 1000000));
	return buf;
}

const char *text_bytes(uint64_t bytes, char buf[TEXT_NUM_LEN])
{
	static const char *const units[] = { "B", "kB", "MB", "GB" };
	double value = bytes;
	int unit = 0;

	while (unit < 3 && value >= 1000) {
		value /= 1000;
		unit++;
	}
	snprintf(buf, TEXT_NUM_LEN, "%.*f %s", unit && value < 100 ? 1 : 0, value, units[unit]);
	return buf;
}

char *text_library(const struct object *lib)
{
	_cleanup_free_ char *raw = lib->typed ? xasprintf("%s (%s)", lib->typed, lib->path) : NULL;

	return text_escape(raw ? raw : lib->path);
}

/* "only process 1, 2", nothing where all may pass. */
static void say_numbers(struct out *out, const char *what, const uint32_t *of, size_t cnt)
{
	for (size_t i = 0; i < cnt; i++)
		out_printf(out, "%s%u", i ? " " : what, of[i]);
}

/* A list that has @behind after each of its words. */
static void say_words(struct out *out, const char *what, const char *text, char behind)
{
	if (!*text)
		return;
	out_str(out, what);
	for (; *text; text++)
		if (*text != behind)
			out_char(out, *text);
		else if (text[1])
			out_char(out, ' ');
}

void out_filters(struct out *out, const struct asked *a)
{
	say_numbers(out, "; only process ", a->pids, a->pid_cnt);
	if (a->ended_cnt && a->ended_cnt == a->pid_cnt)
		out_str(out, " (ended)");
	else
		say_numbers(out, ", of which have ended ", a->pids, a->ended_cnt);
	if (a->by_pid && !a->pid_cnt)
		out_str(out, "; only processes that have ended");
	if (a->children)
		out_str(out, " and what they start");
	say_numbers(out, "; only thread ", a->tids, a->tid_cnt);
	say_numbers(out, "; only user ", a->uids, a->uid_cnt);
	for (size_t i = 0; i < a->comm_cnt; i++)
		out_printf(out, "%s%s", i ? " " : "; only command ", a->comms[i]);
	say_words(out, "; only CPU ", a->cpus, ' ');
	say_words(out, "; only cgroup ", a->cgroups, '\n');
	if (*a->condition)
		out_printf(out, "; if %s", a->condition);
}

void out_command(struct out *out, const struct asked *a)
{
	const char *at = a->argv;

	for (; at < a->argv + a->argv_bytes; at += strlen(at) + 1) {
		bool plain = *at && !strpbrk(at, " \t\n*?[]()<>|&;$`'\"\\#~");

		out_printf(out, plain ? " %s" : " '%s'", at);
	}
}

const char *text_over(const char *group, const struct asked *a, char *buf, size_t size)
{
	const char *started = a->children ? ", and what they have started" : "";

	if (!asked_is_over(a))
		return NULL;
	if (a->pid_cnt == 1)
		snprintf(buf, size, "process %u, the only one of group '%s', has ended%s",
			a->pids[0], group, started);
	else if (a->pid_cnt)
		snprintf(buf, size, "the %zu processes of group '%s' have ended%s", a->pid_cnt,
			group, started);
	else
		snprintf(buf, size,
			"the processes of group '%s', and what they have started, have ended",
			group);
	return buf;
}

const char *text_exit(unsigned int exit)
{
	static const char *const names[] = { "none", "return", "ret", "same",
		"early", "some", "goroutine" };

	return exit < ARRAY_SIZE(names) ? names[exit] : "unknown";
}

const char *text_limit(enum limit limit)
{
	static const char *const names[LIMIT_CNT] = { NULL, "sampled", "counted only",
		"left out" };

	return limit < LIMIT_CNT ? names[limit] : NULL;
}

const char *text_exits(unsigned int mask, char *buf, size_t size)
{
	static const unsigned int order[] = { FSN_EXIT_RETURN, FSN_EXIT_SOME, FSN_EXIT_EARLY,
		FSN_EXIT_RET, FSN_EXIT_GOROUTINE, FSN_EXIT_SAME, FSN_EXIT_NONE };
	size_t len = 0;

	buf[0] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(order) && len < size; i++)
		if (mask & 1U << order[i])
			len += snprintf(buf + len, size - len, "%s%s", len ? "+" : "",
				text_exit(order[i]));
	return buf;
}

const char *words_join(const char *const *words, size_t cnt, const char *between,
	const char *last, char buf[WORDS_LEN])
{
	size_t len = 0;

	for (size_t i = 0; i < cnt && len < WORDS_LEN; i++)
		len += snprintf(buf + len, WORDS_LEN - len, "%s%s",
			!i                    ? ""
				: i + 1 < cnt ? between
					      : last,
			words[i]);
	return buf;
}

/* --- names of functions --------------------------------------------------------------------- */

struct long_name {
	const char *name;
	char **text;
	size_t nth; /* of all different names */
};

static const char *dots(void)
{
	return locale_is_utf8() ? "\xe2\x80\xa6" : "...";
}

/* Returns the start of column @column of @s. */
static const char *column_at(const char *s, size_t column)
{
	for (; *s && column; s++)
		column -= !utf8_goes_on(s[1]);
	return s;
}

/*
 * Finds the longest bracketed part of @s, without the brackets; empty at the end if there is none.
 */
static void longest_list(const char *s, size_t *ret_begin, size_t *ret_end)
{
	size_t depth = 0, begin = 0, at = 0;

	*ret_begin = *ret_end = text_columns(s);
	for (const char *p = s; *p; p++) {
		at += !utf8_goes_on(*p);
		if (strchr("<(", *p) && !depth++) {
			begin = at;
		} else if (strchr(">)", *p) && depth && (p == s || p[-1] != '-') && !--depth &&
			(*ret_begin == *ret_end || at - 1 - begin > *ret_end - *ret_begin)) {
			*ret_begin = begin;
			*ret_end = at - 1;
		}
	}
}

/* @s without columns @from up to @to. */
static char *without(const char *s, size_t from, size_t to)
{
	return xasprintf("%.*s%s%s", (int)(column_at(s, from) - s), s, dots(), column_at(s, to));
}

static char *shorten(const char *s, size_t width)
{
	size_t has = text_columns(s), cut = has - width + text_columns(dots()), begin, end, middle;

	longest_list(s, &begin, &end);
	middle = begin == end ? has : (begin + end) / 2;
	middle = middle > cut / 2 ? middle - cut / 2 : 0;
	if (begin < end && middle < begin && end - begin < cut)
		middle = begin < has - cut ? begin : has - cut;
	return without(s, middle < has - cut ? middle : has - cut, middle < has - cut ? middle + cut : has);
}

DEFINE_ORDER(compare_names, struct long_name, strcmp(x->name, y->name))

DEFINE_ORDER(compare_shortened, struct long_name,
	strcmp(*x->text, *y->text) ?: strcmp(x->name, y->name))

static size_t same_columns(const char *a, const char *b)
{
	size_t same = 0, cnt = 0;

	while (a[same] && a[same] == b[same])
		cnt += !utf8_goes_on(a[same++]);
	return cnt;
}

/*
 * Returns the start of @n, the part from where it differs from @other, and if @numbered its number.
 */
static char *shorten_at(const struct long_name *n, const char *other, size_t width, bool numbered)
{
	size_t room = width - 2 * text_columns(dots()), at = same_columns(n->name, other), head;
	char number[24] = "";

	if (numbered)
		snprintf(number, sizeof(number), "#%zu", n->nth);
	room -= strlen(number) < room ? strlen(number) : room;
	head = room / 2;
	return xasprintf("%.*s%s%.*s%s%s", (int)(column_at(n->name, head) - n->name), n->name, dots(),
		(int)(column_at(n->name, at + room - head) - column_at(n->name, at)),
		column_at(n->name, at), dots(), number);
}

/* Returns the different name that shares the longest prefix with name @i. @names are sorted. */
static const char *other_name(const struct long_name *names, size_t cnt, size_t i)
{
	size_t before = i, after = i;

	while (before && !strcmp(names[before].name, names[i].name))
		before--;
	while (after + 1 < cnt && !strcmp(names[after].name, names[i].name))
		after++;
	return same_columns(names[before].name, names[i].name) >
				same_columns(names[after].name, names[i].name) &&
			strcmp(names[before].name, names[i].name) != 0
		? names[before].name
		: strcmp(names[after].name, names[i].name) != 0 ? names[after].name : names[before].name;
}

/* Shortens @cnt sorted names again, some of which have become equal. */
static void distinguish(struct long_name *names, size_t cnt, size_t width, bool numbered)
{
	for (size_t i = 0, next; i < cnt; i = next) {
		bool differ = false;

		for (next = i + 1; next < cnt && !strcmp(*names[next].text, *names[i].text); next++)
			differ |= strcmp(names[next].name, names[i].name) != 0;
		for (size_t k = i; differ && k < next; k++) {
			free(*names[k].text);
			*names[k].text = shorten_at(
				&names[k], other_name(names + i, next - i, k - i), width, numbered);
		}
	}
}

void text_shorten(const char *const *names, size_t cnt, size_t width, char **ret)
{
	_cleanup_free_ struct long_name *cut = xcalloc(cnt + 1, sizeof(*cut));
	size_t cut_cnt = 0;

	for (size_t i = 0; i < cnt; i++) {
		ret[i] = NULL;
		if (!names[i] || text_columns(names[i]) <= width)
			continue;
		ret[i] = shorten(names[i], width);
		cut[cut_cnt++] = (struct long_name) { names[i], &ret[i], 1 };
	}
	qsort(cut, cut_cnt, sizeof(*cut), compare_names);
	for (size_t i = 1; i < cut_cnt; i++)
		cut[i].nth = cut[i - 1].nth + (compare_names(&cut[i - 1], &cut[i]) != 0);
	for (int numbered = 0; numbered <= 1; numbered++) {
		qsort(cut, cut_cnt, sizeof(*cut), compare_shortened);
		distinguish(cut, cut_cnt, width, numbered);
	}
}

size_t text_columns(const char *s)
{
	size_t n = 0;

	for (; *s; s++)
		n += !utf8_goes_on(*s);
	return n;
}

void text_put_seconds(FILE *f, uint64_t ns)
{
	char buf[32];
	int len = snprintf(buf, sizeof(buf), "%llu.%09llu",
		(unsigned long long)(ns / 1000000000),
		(unsigned long long)(ns % 1000000000));

	while (buf[len - 1] == '0' && buf[len - 2] != '.')
		len--;
	fprintf(f, "%.*s", len, buf);
}

const char *text_jit(pid_t pid, char buf[TEXT_JIT_LEN])
{
	char exe[64], map[64], jcmd[128], path[PATH_MAX];
	const struct {
		const char *program, *hint;
	} hints[] = {
		{ "node", "start it with 'node --perf-basic-prof'" },
		{ "java", jcmd },
		{ "python", "start it with 'python3 -X perf' (Python 3.12)" },
	};
	const char *hint = map;
	ssize_t len;

	snprintf(map, sizeof(map), "it writes no /tmp/perf-%d.map", pid);
	snprintf(jcmd, sizeof(jcmd), "'jcmd %d Compiler.perfmap && funcsnoop run cpu -p %d' has them (JDK 17)",
		pid, pid);
	snprintf(exe, sizeof(exe), "/proc/%d/exe", pid);
	len = readlink(exe, path, sizeof(path) - 1);
	path[len > 0 ? len : 0] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(hints); i++)
		if (!strncmp(basename(path), hints[i].program, strlen(hints[i].program)))
			hint = hints[i].hint;
	snprintf(buf, TEXT_JIT_LEN, "JIT code of process %d has no names: %s", pid, hint);
	return buf;
}

/* --- JSON documents: how they begin and end, times, costs, and errors ---------------------------- */

/* A document that is buffered until it is complete. */
struct document {
	struct json json; /* stays first */
	struct out out;
	bool is_list;     /* its objects are in an array, which is open */
};

struct json json_begin(const struct globals *g, struct out *out)
{
	return (struct json) { .out = out, .pretty = g->pretty, .letters = true };
}

void json_flush(struct json *j, FILE *f)
{
	fwrite(j->out->buf, 1, j->out->len, f);
	j->out->len = 0;
}

void json_head(struct json *j)
{
	json_open(j, '{');
	json_set_u64(j, "version", JSON_VERSION);
}

struct json *json_object(const struct globals *g)
{
	struct document *doc = xcalloc(1, sizeof(*doc));

	doc->json = json_begin(g, &doc->out);
	json_head(&doc->json);
	return &doc->json;
}

struct json *json_list(const struct globals *g, const char *key)
{
	struct json *j = json_object(g);

	json_set_open(j, key, '[');
	((struct document *)j)->is_list = true;
	return j;
}

void json_free(struct json **doc)
{
	if (*doc)
		out_done((*doc)->out);
	free(*doc);
}

int json_print(struct json *doc)
{
	if (((struct document *)doc)->is_list)
		json_close(doc, ']');
	json_close(doc, '}');
	out_char(doc->out, '\n');
	json_flush(doc, stdout);
	json_free(&doc);
	return EXIT_DONE;
}

void json_set_time(struct json *j, const char *key, uint64_t realtime_ns)
{
	char buf[TEXT_NUM_LEN];

	json_set_str(j, key, text_time(realtime_ns, buf));
}

void json_set_cost(struct json *j, const struct cost *cost)
{
	json_set_u64_if(j, "cost_ns_per_s", cost->source != COST_UNKNOWN, cost->ns_per_s);
	json_set_str(j, "cost_source", cost_source_name(cost->source));
}

void json_add_real(struct json *j, enum figure_unit unit, double x)
{
	json_real(j, "%.*f", unit == UNIT_PERCENT ? 3 : rate_digits(x), x);
}

void json_add_figures(struct json *j, enum figure_use use, const struct figures *f)
{
	enum figure_id ids[FIGURE_CNT];
	size_t cnt = figure_list(use, ids);

	for (size_t i = 0; i < cnt; i++) {
		enum figure_id id = ids[i];

		if (figure_is_real(id) && figure_known(f, id)) {
			json_key(j, figures[id].key);
			json_add_real(j, figures[id].unit, f->value[id].x);
		} else {
			json_set_u64_if(j, figures[id].key, figure_known(f, id),
				figure_or_0(f, id));
		}
	}
}

void json_error_list(
	const struct globals *g, const char *message, const char *hint, struct json *list)
{
	struct json *doc = list;

	if (list && list->place == JSON_NEXT) {
		json_close(list, ']');
		((struct document *)list)->is_list = false;
	} else {
		json_free(&list);
		doc = json_object(g);
	}
	json_set_open(doc, "error", '{');
	json_set_str(doc, "message", message);
	json_set_str(doc, "hint", hint && *hint ? hint : NULL);
	json_close(doc, '}');
	json_print(doc);
}

/* {"version": 1, "error": {"message": "...", "hint": "..."}} on stdout; @hint may be NULL. */
static void json_error(const struct globals *g, const char *message, const char *hint)
{
	json_error_list(g, message, hint, NULL);
}

int json_version(const struct globals *g, const char *version, const char *libbpf)
{
	struct json *doc = json_object(g);

	json_set_str(doc, "funcsnoop", version);
	json_set_str(doc, "libbpf", libbpf);
	return json_print(doc);
}

/* --- messages: errors with their hints, wrong usage, remarks ------------------------------------- */

static void print_message(const struct globals *g, const char *message)
{
	char *safe = text_escape(message);

	/* Both may be the same file: flush stdout first, in complete lines. */
	fflush(stdout);
	fprintf(stderr, "funcsnoop%s%s: %s\n", g->command ? " " : "",
		g->command ? g->command : "", safe);
	free(safe);
}

void cmd_show_error(const struct globals *g, const struct err *err)
{
	_cleanup_free_ char *hint = text_escape(err->hint);

	print_message(g, err->msg);
	if (*hint)
		fprintf(stderr, "hint: %s\n", hint);
}

int cmd_fail(const struct globals *g, const struct err *err)
{
	cmd_show_error(g, err);
	if (g->json)
		json_error(g, err->msg, err->hint);
	return err->code == -ERR_USAGE ? EXIT_USAGE : EXIT_FAILED;
}

int cmd_usage(const struct globals *g, const char *fmt, ...)
{
	char message[ERR_MSG_LEN];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(message, sizeof(message), fmt, ap);
	va_end(ap);
	print_message(g, message);
	fprintf(stderr, "hint: 'funcsnoop help%s%s' shows the usage\n", g->command ? " " : "",
		g->command ? g->command : "");
	if (g->json)
		json_error(g, message, NULL);
	return EXIT_USAGE;
}

void cmd_note(const struct globals *g, const char *fmt, ...)
{
	char message[ERR_MSG_LEN];
	va_list ap;

	if (g->quiet)
		return;
	va_start(ap, fmt);
	vsnprintf(message, sizeof(message), fmt, ap);
	va_end(ap);
	print_message(g, message);
}

/* --- whole lines: a file, a pipe, a terminal ----------------------------------------------------- */

/*
 * Creates the file for its owner only, like the maps with the arguments of calls. Lines are
 * appended (O_APPEND), because another process may truncate the file.
 */
static int open_file(const char *path, struct sink *s, struct err *err)
{
	const int flags = O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY |
		(s->trailer ? 0 : O_APPEND);

	s->fd = open(path, flags | O_EXCL, 0600);
	if (s->fd >= 0)
		s->created = path;
	else if (errno == EEXIST)
		s->fd = open(path, flags, 0600);
	if (s->fd < 0)
		return err_sys(err, -errno, "cannot open '%s'", path);
	s->owned = true;
	return 0;
}

int sink_open(const char *path, struct sink *s, struct err *err)
{
	struct stat st;
	int code;

	s->name = path ? path : "output";
	s->fd = path ? file_descriptor(path) : STDOUT_FILENO;
	code = s->fd < 0 ? open_file(path, s, err) : 0;
	if (code)
		return code;
	if (fstat(s->fd, &st))
		return err_sys(err, -errno, "cannot write '%s'", s->name);
	s->regular = s->owned && S_ISREG(st.st_mode);
	return 0;
}

int sink_begin(struct sink *s, struct err *err)
{
	s->created = NULL;
	if (s->regular && ftruncate(s->fd, 0))
		return err_sys(err, -errno, "cannot write '%s'", s->name);
	return 0;
}

static size_t piece_of_lines(const char *buf, size_t len)
{
	const char *end;

	if (len <= PIPE_BUF)
		return len;
	end = memrchr(buf, '\n', PIPE_BUF);
	if (!end)
		end = memchr(buf, '\n', len);
	return end ? (size_t)(end + 1 - buf) : len;
}

/* Another process may have set O_NONBLOCK on the same open file. */
static void wait_for_room(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };

	poll(&p, 1, 100);
}

/* *@done is the number of bytes written, also after an error. */
static int write_all(const struct sink *s, const char *buf, size_t len, size_t *done)
{
	for (*done = 0; *done < len;) {
		ssize_t n = write(s->fd, buf + *done, len - *done);

		if (n < 0 && errno != EINTR && errno != EAGAIN)
			return -errno;
		if (n < 0) {
			if (s->give_up && s->give_up())
				return -EINTR;
			if (errno == EAGAIN)
				wait_for_room(s->fd);
			continue;
		}
		*done += n;
	}
	return 0;
}

/* Writes a document and its trailer at once. Undoes a failed write. */
static int write_document(struct sink *s)
{
	size_t body = s->out.len, tail = strlen(s->trailer), done;
	int code;

	out_str(&s->out, s->trailer);
	code = write_all(s, s->out.buf, s->out.len, &done);
	s->out.len = body;
	if (!code) {
		s->at += body;
		return lseek(s->fd, s->at, SEEK_SET) < 0 ? -errno : 0;
	}
	/* If nothing was written, the document has no end. */
	if (!s->at)
		tail = 0;
	if (lseek(s->fd, s->at, SEEK_SET) == s->at && tail)
		write_all(s, s->trailer, tail, &done);
	if (ftruncate(s->fd, s->at + tail))
		return code;
	return code;
}

/* Removes an incomplete line, unless other processes have appended to the file. */
static void cut_file(const struct sink *s, size_t len)
{
	off_t end = lseek(s->fd, 0, SEEK_CUR);
	struct stat st;

	if (len && !fstat(s->fd, &st) && S_ISREG(st.st_mode) && st.st_size == end &&
		!ftruncate(s->fd, end - (off_t)len))
		lseek(s->fd, end - (off_t)len, SEEK_SET);
}

/* Appends, because other processes may write to the same file. */
static int write_pieces(struct sink *s)
{
	const char *buf = s->out.buf;
	size_t len = s->out.len, n, done = 0;
	sink_piece_fn piece = s->piece ? s->piece : piece_of_lines;
	int code = 0;

	for (; !code && buf && len; buf += n, len -= n) {
		n = piece(buf, len);
		code = write_all(s, buf, n, &done);
	}
	if (code)
		cut_file(s, done);
	return code;
}

int sink_flush(struct sink *s, struct err *err)
{
	int code;

	if (!s->out.len)
		return 0;
	code = s->regular && s->trailer ? write_document(s) : write_pieces(s);
	s->bytes += s->out.len;
	s->out.len = 0;
	return code ? err_sys(err, code, "cannot write '%s'", s->name) : 0;
}

int sink_end(struct sink *s, struct err *err)
{
	if (!s->trailer)
		return sink_flush(s, err);
	out_str(&s->out, s->trailer);
	s->trailer = NULL;
	return sink_flush(s, err);
}

void sink_done(struct sink *s)
{
	out_done(&s->out);
	if (s->created)
		unlink(s->created);
	if (s->owned)
		close_fd(s->fd);
}
