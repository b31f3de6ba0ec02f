// SPDX-License-Identifier: BSD-2-Clause
// funcsnoop serve: answers one HTTP request for a listener that starts one process per connection.
//
// The client is not trusted, because any user who reaches the port can connect. It gets the data of
// shared groups, has limited time, and none of its input is sent back.
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>

#include "base/http.h"
#include "internal.h"
#include "base/util.h"
#include "show/text.h"

#define TIMEOUT_NS 5000000000ULL
/* Limits for discarding the rest of a request: bytes and time. */
#define DRAIN_MAX (1 << 20)
#define DRAIN_NS  500000000ULL

/* --- timeouts: a signal interrupts blocking calls -------------------------------------------- */

static volatile sig_atomic_t late;

static void on_alarm(int sig)
{
	late = 1;
}

/* The timer repeats, because a signal may arrive just before a blocking call. */
static void alarm_in(uint64_t ns)
{
	struct itimerval timer = { .it_interval.tv_usec = 20000 };

	timer.it_value.tv_sec = ns / 1000000000;
	timer.it_value.tv_usec = ns % 1000000000 / 1000;
	late = 0;
	setitimer(ITIMER_REAL, &timer, NULL);
}

static void signals_begin(void)
{
	struct sigaction action = { .sa_handler = on_alarm };

	sigaction(SIGALRM, &action, NULL);
	signal(SIGPIPE, SIG_IGN);
}

/* --- the request and its answer --------------------------------------------------------------- */

/* Returns the number of bytes read, 0 at the end, -ETIMEDOUT, or the errno of read(2). */
static ssize_t read_some(char *buf, size_t size)
{
	while (!late) {
		ssize_t n = read(STDIN_FILENO, buf, size);

		if (n >= 0 || errno != EINTR)
			return n >= 0 ? n : -errno;
	}
	return -ETIMEDOUT;
}

/* Returns the HTTP status of the request; 0: the client disconnected. */
static int take_request(char head[HTTP_HEAD_MAX], struct http_request *ret_request)
{
	size_t len = 0;
	int status = 0;

	while (!status) {
		ssize_t n = read_some(head + len, HTTP_HEAD_MAX - len);

		if (n == -ETIMEDOUT)
			return 408;
		if (n <= 0)
			return 0;
		len += n;
		status = http_parse(head, len, ret_request);
	}
	return status;
}

static int write_whole(const char *bytes, size_t len)
{
	while (len) {
		ssize_t n = late ? -1 : write(STDOUT_FILENO, bytes, len);

		if (late)
			return -ETIMEDOUT;
		if (n < 0 && errno != EINTR)
			return -errno;
		bytes += n < 0 ? 0 : n;
		len -= n < 0 ? 0 : n;
	}
	return 0;
}

/* Closing a socket with unread bytes resets the connection, which can discard the response. */
static void drain(void)
{
	ssize_t left = DRAIN_MAX, n = 1;
	char buf[4096];

	alarm_in(DRAIN_NS);
	for (shutdown(STDOUT_FILENO, SHUT_WR); left > 0 && n > 0; left -= n)
		n = read_some(buf, sizeof(buf));
}

static bool path_is(const struct http_request *r, const char *path)
{
	return r->path_len == strlen(path) && !memcmp(r->path, path, r->path_len);
}

/* HEAD gets the length without a body: the client would take a body for the next response. */
static int answer(const struct options *o, const struct http_request *r, int status,
	const char *body, size_t size)
{
	char head[512];
	int len, code;

	len = snprintf(head, sizeof(head),
		"HTTP/1.1 %d %s\r\n"
		"Content-Type: text/plain; %scharset=utf-8\r\n"
		"Content-Length: %zu\r\n%s"
		"Cache-Control: no-store\r\n"
		"Connection: close\r\n\r\n",
		status, http_reason(status), status == 200 ? "version=0.0.4; " : "", size,
		status != 405 ? "" : path_is(r, "/healthz") ? "Allow: GET, HEAD\r\n" : "Allow: GET\r\n");
	alarm_in(o->timeout_ns);
	code = write_whole(head, len);
	if (!code && r->method != HTTP_HEAD)
		code = write_whole(body, size);
	if (!code)
		drain();
	return code;
}

static int answer_word(const struct options *o, const struct http_request *r, int status)
{
	char body[64];
	int len = snprintf(body, sizeof(body), "%s\n", status == 200 ? "ok" : http_reason(status));

	return answer(o, r, status, body, len);
}

/* Errors go to standard error for the administrator, not to the client. */
static int answer_metrics(struct options *o, const struct http_request *r)
{
	_cleanup_free_ char *text = NULL;
	struct err err = {};
	bool failed = false;
	size_t size = 0;

	if (stats_render(&o->stats, &text, &size, &failed, &err)) {
		cmd_fail(o->stats.g, &err);
		(void)!answer_word(o, r, 500);
		return EXIT_FAILED;
	}
	return answer(o, r, 200, text, size) || failed ? EXIT_FAILED : EXIT_DONE;
}

/* Healthy means that the groups can be listed. */
static int answer_health(const struct options *o, const struct http_request *r)
{
	struct bpffs fs = BPFFS_NONE;
	_cleanup_names_ char **names = NULL;
	struct err err = {};
	size_t cnt;
	int code = bpffs_open(o->stats.g->bpffs, false, &fs, &err);

	if (!code)
		code = bpffs_groups(&fs, &names, &cnt, &err);
	bpffs_close(&fs);
	if (code)
		cmd_fail(o->stats.g, &err);
	if (answer_word(o, r, code ? 503 : 200) || code)
		return EXIT_FAILED;
	return EXIT_DONE;
}

/* A bad request is the client's error, so the exit status is 0. */
static int refuse(const struct options *o, const struct http_request *r, int status)
{
	(void)!answer_word(o, r, status);
	return EXIT_DONE;
}

static int serve(struct options *o)
{
	struct http_request r = { .method = HTTP_OTHER, .path = "" };
	char head[HTTP_HEAD_MAX];
	int status;

	alarm_in(o->timeout_ns);
	status = take_request(head, &r);
	if (!status)
		return EXIT_DONE;
	alarm_in(0);
	if (status != 200)
		return refuse(o, &r, status);
	if (path_is(&r, "/metrics"))
		return r.method == HTTP_GET ? answer_metrics(o, &r) : refuse(o, &r, 405);
	if (path_is(&r, "/healthz"))
		return r.method != HTTP_OTHER ? answer_health(o, &r) : refuse(o, &r, 405);
	return refuse(o, &r, 404);
}

/* --- the command -------------------------------------------------------------------------------- */

/* inetd passes one socket for all three descriptors: notes must not go into the response. */
static void leave_connection(void)
{
	struct stat out, err;
	int fd;

	if (fstat(STDOUT_FILENO, &out) || fstat(STDERR_FILENO, &err) || !S_ISSOCK(out.st_mode) ||
		out.st_dev != err.st_dev || out.st_ino != err.st_ino)
		return;
	fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	if (fd >= 0)
		dup2(fd, STDERR_FILENO);
}

static int run(struct globals *g, int argc, char **argv)
{
	_cleanup_options_ struct options o;

	cmd_parse(g, &cmd_serve, argc, argv, &o);
	if (!o.inetd)
		return cmd_usage(g, "it has no listener of its own: --inetd, under systemd or inetd");
	o.stats.names = o.words;
	o.stats.shared = true;
	if (!o.stats.format)
		o.stats.format = stats_format_find("prometheus");
	o.timeout_ns = o.timeout_ns ? o.timeout_ns : TIMEOUT_NS;
	g->json = false;
	leave_connection();
	signals_begin();
	return serve(&o);
}

const struct command cmd_serve = { "serve", "--inetd [GROUP...]", "metrics over HTTP, one request",
	run, ON_SERVE, "[GROUP...]",
	"Answer one HTTP request for metrics of groups; without GROUP, of all that are\n"
	"shared (attach --share).\v"
	"GET /metrics returns metrics for Prometheus, GET /healthz status 200 if they can\n"
	"be read. systemd or inetd listens: examples/funcsnoop.socket.\n"
	"Examples:\n"
	"  funcsnoop attach cuda --share 0644\n"
	"  funcsnoop serve --inetd   as the command of a socket unit, or of\n"
	"      systemd-socket-activate -a --inetd -l 127.0.0.1:9797" };
