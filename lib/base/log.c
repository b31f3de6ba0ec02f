// SPDX-License-Identifier: BSD-2-Clause
// Keeps the last warnings of libbpf, which say why a load failed; and asks its version.
#include <stdio.h>
#include <string.h>

#include <bpf/libbpf.h>

#include "base/log.h"
#include "base/util.h"

#define KEPT     3
#define LINE_LEN 256

static log_sink_fn log_sink;
static char lines[KEPT][LINE_LEN];
static size_t line_cnt;

/* Keeps the lines of @text, of which there may be many: a verifier's log is one message. */
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
	_cleanup_free_ char *text = NULL;
	size_t len;

	if (vasprintf(&text, fmt, ap) < 0) {
		text = NULL;
		return 0;
	}
	len = strlen(text);
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
