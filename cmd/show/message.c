// SPDX-License-Identifier: BSD-2-Clause
// Messages of a command: errors with their hints, wrong usage, remarks.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/util.h"
#include "show/json.h"
#include "show/message.h"
#include "show/text.h"

static void print_message(const struct globals *g, const char *message)
{
	char *safe = text_escape(message);

	fprintf(stderr, "funcsnoop%s%s: %s\n", g->command ? " " : "",
		g->command ? g->command : "", safe ? safe : "out of memory");
	free(safe);
}

void cmd_show_error(const struct globals *g, const struct err *err)
{
	_cleanup_free_ char *hint = text_escape(err->hint);

	print_message(g, err->msg);
	if (hint && *hint)
		fprintf(stderr, "hint: %s\n", hint);
}

int cmd_fail(const struct globals *g, const struct err *err)
{
	cmd_show_error(g, err);
	if (g->json)
		json_error(g, err->msg);
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
		json_error(g, message);
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
