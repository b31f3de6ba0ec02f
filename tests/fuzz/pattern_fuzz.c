// SPDX-License-Identifier: BSD-2-Clause
// Fuzzing what compares names: globs, expressions, demangling, suggestions, FUNCTION text.
#include "base/text.h"

#include <fnmatch.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "elf/elf_file.h"
#include "find/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_demangle(const char *name)
{
	for (int form = DEMANGLE_NAME; form <= DEMANGLE_VERBOSE; form++) {
		char *text = demangle(name, form);

		if (text && strlen(text) >= DEMANGLE_MAX_OUT)
			abort();
		free(text);
	}
}

/* A printed duration is read again; it is rounded to three decimal places. */
static void try_duration(const char *text)
{
	char buf[DURATION_LEN];
	uint64_t ns, again;
	struct err err;

	if (duration_parse(text, &ns, &err))
		return;
	duration_format(ns, buf);
	if (duration_parse(buf, &again, &err)) {
		if (ns < INT64_MAX / 1000 * 999) /* rounded up it may be too long */
			abort();
	} else if (again > ns ? again - ns > ns / 1000 : ns - again > ns / 1000) {
		abort();
	}
}

static void try_texts(const char *text)
{
	char *a = malloc(strlen(text) + 1), *b = malloc(strlen(text) + 1);
	struct ident id;

	if (!a || !b)
		abort();
	text_normalize(text, a);
	text_normalize(a, b);
	if (strlen(a) > strlen(text) || strlen(b) > strlen(a))
		abort();
	text_drop_templates(text, b);
	text_drop_qualifiers(b);
	text_has_args(text);
	for (int i = 0; i < 4; i++) {
		id = text_ident(text, i & 1, i & 2);
		if (id.len && (id.p < text || id.p + id.len > text + strlen(text)))
			abort();
	}
	free(a);
	free(b);
}

/*
 * Short, and without what makes the C library's compiler take memory without end, a
 * repetition of repetitions above all: such an expression is the user's own.
 */
static bool is_tame(const char *regex)
{
	size_t plus = 0;

	for (const char *p = regex; *p; p++)
		plus += *p == '+';
	return strlen(regex) < 32 && plus < 5 && !strpbrk(regex, "{\\");
}

static void try_arg(const char *text, bool regex)
{
	struct request req = { .func = text, .regex = regex };
	struct err err;
	struct arg a;

	if (arg_parse(&req, &a, &err) == 0)
		arg_done(&a);
}

/* fnmatch agrees where both have the same idea: no sets, no backslashes, no bytes over 127. */
static void try_glob(const char *glob, const char *name)
{
	bool match = pattern_glob(glob, name);

	for (const char *p = glob; *p; p++) {
		if (strchr("[]\\", *p) || (*p & 0x80))
			return;
	}
	for (const char *p = name; *p; p++) {
		if (*p & 0x80)
			return;
	}
	if (match != (fnmatch(glob, name, 0) == 0))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text, *name;
	struct pattern p;
	struct suggest s;
	struct err err;
	char buf[100];

	if (size > 400)
		return 0;
	text = calloc(1, size + 2); /* two texts with a zero byte between, or one */
	if (!text)
		abort();
	memcpy(text, data, size);
	name = text + strlen(text) + 1;
	if (name > text + size)
		name = text;
	try_glob(text, name);
	try_duration(text);
	try_duration(name);
	if (is_tame(text) && pattern_init(&p, PATTERN_REGEX, text, &err) == 0) {
		pattern_match(&p, name);
		pattern_done(&p);
	}
	try_demangle(text);
	try_texts(text);
	try_arg(text, false);
	if (is_tame(text))
		try_arg(text, true);
	suggest_init(&s, text);
	suggest_offer(&s, name, NULL);
	suggest_offer(&s, text, name);
	suggest_text(&s, buf, sizeof(buf));
	free(text);
	return 0;
}
