// SPDX-License-Identifier: BSD-2-Clause
// Tracepoints: their fields by format files, sound and damaged, and this kernel's own.
#include "kernel/trace.h"

#include <errno.h>
#include <string.h>

#include "tap.h"

#define COMMON                                                                                \
	"\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"                \
	"\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"

static int parse(const char *text, struct trace_event *ret, struct err *err)
{
	return trace_event_parse(strdup(text), ret, err);
}

static void field_is(const struct trace_event *e, const char *name, const char *type,
	enum trace_kind kind, uint32_t offset, uint32_t size, bool is_signed)
{
	const struct trace_field *f = trace_event_field(e, name);

	if (!ok(f != NULL, "there is a field '%s'", name))
		return;
	is_str(f->type, type, "its type is as declared");
	is_int(f->kind, kind, "it is of that kind");
	is_int(f->offset, offset, "at its place");
	is_int(f->size, size, "of its size");
	is_int(f->is_signed, is_signed, "with a sign, or without");
}

static void test_sound(void)
{
	_cleanup_trace_event_ struct trace_event e = { 0 };
	struct err err;

	if (!ok(!parse("name: any\nID: 372\nformat:\n" COMMON
		       "\tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n"
		       "\tfield:const char * filename;\toffset:24;\tsize:8;\tsigned:0;\n"
		       "\tfield:__data_loc char[] name;\toffset:32;\tsize:4;\tsigned:0;\n"
		       "\tfield:__rel_loc u32[] more;\toffset:36;\tsize:4;\tsigned:0;\n"
		       "\tfield:__u8 daddr[4];\toffset:40;\tsize:4;\tsigned:0;\n"
		       "\tfield:unsigned long long len;\toffset:48;\tsize:8;\tsigned:0;\n"
		       "\tfield:char why;\toffset:56;\tsize:1;\tsigned:1;\n"
		       "\nprint fmt: \"field:int no;\\toffset:0;\", REC->comm\n",
			&e, &err),
		    "a format is read")) {
		printf("# %s\n", err.msg);
		return;
	}
	is_int(e.id, 372, "it has its number");
	is_int(e.cnt, 9, "and all fields");
	is_int(e.size, 57, "and ends behind the last");
	field_is(&e, "comm", "char", TRACE_TEXT, 8, 16, false);
	field_is(&e, "filename", "const char *", TRACE_NUMBER, 24, 8, false);
	field_is(&e, "name", "__data_loc char[]", TRACE_LOC, 32, 4, false);
	field_is(&e, "more", "__rel_loc u32[]", TRACE_REL_LOC, 36, 4, false);
	field_is(&e, "daddr", "__u8", TRACE_BYTES, 40, 4, false);
	field_is(&e, "len", "unsigned long long", TRACE_NUMBER, 48, 8, false);
	field_is(&e, "why", "char", TRACE_NUMBER, 56, 1, true);
	ok(trace_event_field(&e, "common_pid")->is_common &&
			!trace_event_field(&e, "len")->is_common,
		"what all have is told from its own");
	ok(trace_event_field(&e, "name")->of_text && !trace_event_field(&e, "more")->of_text,
		"text that lies behind is told from numbers");
	ok(!trace_event_field(&e, "no"), "what is printed is no field");
}

static void test_damaged(void)
{
	static const char *const damaged[] = {
		"",
		"ID: \n",
		"ID: 5x\n",
		"ID: 5\n\tfield:int a;\toffset:8;\tsigned:0;\n",
		"ID: 5\n\tfield:int a;\toffset:8;\tsize:70000;\tsigned:0;\n",
		"ID: 5\n\tfield:int a;\toffset:-8;\tsize:4;\tsigned:0;\n",
		"ID: 5\n\tfield:int a;\toffset:99999999999999999999;\tsize:4;\tsigned:0;\n",
		"ID: 5\n\tfield:int;\toffset:8;\tsize:4;\tsigned:0;\n",
		"ID: 5\n\tfield:;\toffset:8;\tsize:4;\tsigned:0;\n",
		"ID: 5\n\tfield:[4];\toffset:8;\tsize:4;\tsigned:0;\n",
		"ID: 5\n\tfield:__data_loc char[] a;\toffset:8;\tsize:8;\tsigned:0;\n",
		"ID: 5\n\tfield:int a",
	};

	for (size_t i = 0; i < ARRAY_SIZE(damaged); i++) {
		struct trace_event e = { 0 };
		struct err err;

		is_int(parse(damaged[i], &e, &err), -EBADMSG, "a damaged format is refused");
		ok(!e.text, "and leaves nothing");
	}
}

/* The tracefs of this machine, if it is readable. */
static void test_here(void)
{
	_cleanup_trace_names_ struct trace_names names = { 0 };
	_cleanup_trace_event_ struct trace_event e = { 0 };
	_cleanup_close_ int tracefs = -1;
	size_t bad = 0, found = 0;
	struct err err;

	tracefs = tracefs_open(&err);
	if (tracefs < 0) {
		ok(err.msg[0], "no tracefs here # SKIP %s", err.msg);
		return;
	}
	if (!ok(!tracefs_names(tracefs, &names, &err), "tracepoints are listed"))
		return;
	for (size_t i = 0; i < names.cnt; i++) {
		char *colon = strchr(names.names[i], ':');
		struct trace_event each = { 0 };

		found += !strcmp(names.names[i], "sched:sched_switch");
		*colon = '\0';
		if (tracefs_event(tracefs, names.names[i], colon + 1, &each, &err)) {
			printf("# %s\n", err.msg);
			bad++;
		}
		*colon = ':';
		trace_event_done(&each);
	}
	ok(names.cnt > 100 && found == 1, "there are some hundred, each once");
	is_int(bad, 0, "each format is understood");
	is_int(tracefs_event(tracefs, "sched", "sched_switch", &e, &err), 0, "one is read");
	field_is(&e, "next_comm", "char", TRACE_TEXT, trace_event_field(&e, "next_comm")->offset,
		16, false);
	is_int(tracefs_event(tracefs, "sched", "..", &e, &err), -ENOENT, "a path is no name");
	is_int(tracefs_event(tracefs, "sched", "none", &e, &err), -ENOENT, "none is none");
	is_str(err.msg, "no tracepoint 'sched:none'", "and said so");
}

int main(void)
{
	test_sound();
	test_damaged();
	test_here();
	return tap_done();
}
