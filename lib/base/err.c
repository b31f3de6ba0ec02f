// SPDX-License-Identifier: BSD-2-Clause
// Fills and wraps errors, returns their texts, and ends the program if memory is out.
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/libbpf.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/util.h"

/* ENOTSUPP, which the kernel returns for instructions that cannot be probed; libc lacks it. */
#define KERNEL_ENOTSUPP 524

const char *err_text(int code)
{
	static __thread char buf[128];
	int n = abs(code);

	if (n == KERNEL_ENOTSUPP)
		return "Operation not supported by the kernel (524)";
	if (n == EPROTO) /* only returned by readers of maps */
		return "one of its maps is damaged";
	if (n == ERR_NO_PROC)
		return "/proc is not mounted";
	if (n >= __LIBBPF_ERRNO__START) {
		libbpf_strerror(-n, buf, sizeof(buf));
		return buf;
	}
	return strerror_r(n, buf, sizeof(buf));
}

__attribute__((format(printf, 3, 0))) static void err_fill(struct err *e, int code, const char *fmt, va_list ap)
{
	e->code = code;
	e->hint[0] = '\0';
	vsnprintf(e->msg, sizeof(e->msg), fmt, ap);
}

int err_set(struct err *e, int code, const char *fmt, ...)
{
	va_list ap;

	if (!e)
		return code;
	va_start(ap, fmt);
	err_fill(e, code, fmt, ap);
	va_end(ap);
	return code;
}

int err_sys(struct err *e, int code, const char *fmt, ...)
{
	va_list ap;
	size_t len;

	if (!e)
		return code;
	va_start(ap, fmt);
	err_fill(e, code, fmt, ap);
	va_end(ap);
	len = strlen(e->msg);
	snprintf(e->msg + len, sizeof(e->msg) - len, ": %s", err_text(code));
	return code;
}

int err_wrap(struct err *e, const char *fmt, ...)
{
	char old[ERR_MSG_LEN];
	va_list ap;
	size_t len;

	if (!e)
		return -EINVAL;
	memcpy(old, e->msg, sizeof(old));
	va_start(ap, fmt);
	vsnprintf(e->msg, sizeof(e->msg), fmt, ap);
	va_end(ap);
	len = strlen(e->msg);
	snprintf(e->msg + len, sizeof(e->msg) - len, ": %s", old);
	return e->code;
}

int err_hint(struct err *e, const char *fmt, ...)
{
	va_list ap;

	if (!e)
		return -EINVAL;
	va_start(ap, fmt);
	vsnprintf(e->hint, sizeof(e->hint), fmt, ap);
	va_end(ap);
	return e->code;
}

/* --- the last warnings of libbpf, for the reason of a failed load --------------------------- */

#define KEPT     3
#define LINE_LEN 256

static log_sink_fn log_sink;
static char lines[KEPT][LINE_LEN];
static size_t line_cnt;

/* Keeps the last lines of @text: a verifier log is a single message with many lines. */
static void keep(const char *text)
{
	size_t len;

	for (; *text; text += len + (text[len] == '\n')) {
		len = strcspn(text, "\n");
		if (len)
			snprintf(lines[line_cnt++ % KEPT], LINE_LEN, "%.*s",
				(int)(len < LINE_LEN ? len : LINE_LEN - 1), text);
	}
}

__attribute__((format(printf, 2, 0))) static int log_print(
	enum libbpf_print_level level, const char *fmt, va_list ap)
{
	_cleanup_free_ char *text = xvasprintf(fmt, ap);
	size_t len = strlen(text);

	if (len && text[len - 1] == '\n')
		text[len - 1] = '\0';
	if (log_sink)
		log_sink(text);
	if (level == LIBBPF_WARN)
		keep(text);
	return 0;
}

void log_init(log_sink_fn sink)
{
	log_sink = sink;
	line_cnt = 0;
	libbpf_set_print(log_print);
}

bool log_wanted(void)
{
	return log_sink;
}

const char *log_tail(void)
{
	static char text[KEPT * LINE_LEN + 8];
	size_t first = line_cnt > KEPT ? line_cnt - KEPT : 0;

	text[0] = '\0';
	for (size_t i = first; i < line_cnt; i++) {
		if (i > first)
			strcat(text, "; ");
		strcat(text, lines[i % KEPT]);
	}
	return text;
}

const char *version_libbpf(void)
{
	return libbpf_version_string();
}

void alloc_failed(void)
{
	static const char msg[] = "funcsnoop: Cannot allocate memory\n";

	/* Exit handlers and stdio may need memory as well. */
	if (write(STDERR_FILENO, msg, sizeof(msg) - 1) < 0)
		_exit(EXIT_FAILURE);
	_exit(EXIT_FAILURE);
}

static void *checked(void *memory)
{
	if (!memory)
		alloc_failed();
	return memory;
}

/* malloc(0) may be NULL. */
void *xmalloc(size_t size)
{
	return checked(malloc(size ? size : 1));
}

void *xcalloc(size_t cnt, size_t size)
{
	return checked(calloc(cnt ? cnt : 1, size ? size : 1));
}

void *xreallocarray(void *array, size_t cnt, size_t size)
{
	return checked(reallocarray(array, cnt ? cnt : 1, size ? size : 1));
}

char *xstrdup(const char *str)
{
	return checked(strdup(str));
}

char *xstrndup(const char *str, size_t len)
{
	return checked(strndup(str, len));
}

char *xvasprintf(const char *fmt, va_list args)
{
	char *text;

	if (vasprintf(&text, fmt, args) < 0)
		alloc_failed();
	return text;
}

char *xasprintf(const char *fmt, ...)
{
	va_list args;
	char *text;

	va_start(args, fmt);
	text = xvasprintf(fmt, args);
	va_end(args);
	return text;
}

void *xcopy(const void *bytes, size_t size)
{
	return memcpy(xmalloc(size), bytes, size);
}

FILE *xmemstream(char **text, size_t *size)
{
	return checked(open_memstream(text, size));
}

void xmemstream_end(FILE *stream)
{
	if (ferror(stream) || fclose(stream))
		alloc_failed();
}
