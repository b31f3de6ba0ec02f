// SPDX-License-Identifier: BSD-2-Clause
// Where output goes: messages, whole JSON documents, and files written in whole lines.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buffer.h"
#include "base/file.h"
#include "base/text.h"
#include "base/util.h"
#include "show/text.h"
#include "stats/figures.h"

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
