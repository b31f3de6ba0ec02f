// SPDX-License-Identifier: BSD-2-Clause
// stats --watch: rates, redrawn in place, ordered by the keyboard.
//
// Every way out goes through screen_end(): signals are taken only while waiting, and what
// ends the command otherwise returns.
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>

#include "base/util.h"
#include "internal.h"
#include "show/text.h"

/* Sequences that every terminal since the VT100, or its emulation, understands. */
#define ENTER    "\033[?1049h\033[?25l\033[?7l" /* other screen, no cursor, no wrapping */
#define LEAVE    "\033[?7h\033[?25h\033[?1049l"
#define HOME     "\033[H"
#define LINE_END "\033[K\r\n" /* clears what the last frame had here */
#define REST     "\033[J"

struct screen {
	struct termios old;
	bool on, keys; /* keys: stdin is a terminal */
	sigset_t waiting;
};

static volatile sig_atomic_t got; /* the last signal; 0: handled */

static void on_signal(int sig)
{
	/* A new size must not hide a wish to end. */
	if (sig != SIGWINCH || !got)
		got = sig;
}

static void put(const char *text)
{
	fputs(text, stdout);
	fflush(stdout);
}

bool screen_can(void)
{
	const char *term = getenv("TERM");

	return isatty(STDOUT_FILENO) && term && *term && strcmp(term, "dumb");
}

static void screen_begin(struct screen *s)
{
	struct termios raw;

	s->keys = isatty(STDIN_FILENO) && !tcgetattr(STDIN_FILENO, &s->old);
	if (s->keys) {
		raw = s->old;
		raw.c_lflag &= ~(ICANON | ECHO);
		raw.c_cc[VMIN] = 0;
		raw.c_cc[VTIME] = 0;
		tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
	}
	s->on = true;
	put(ENTER);
}

static void screen_end(struct screen *s)
{
	if (!s->on)
		return;
	s->on = false;
	put(LEAVE);
	if (s->keys)
		tcsetattr(STDIN_FILENO, TCSADRAIN, &s->old);
}

static void signals_begin(struct screen *s)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP,
		SIGWINCH };
	struct sigaction action = { .sa_handler = on_signal };
	sigset_t blocked;

	sigemptyset(&blocked);
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++) {
		sigaddset(&blocked, signals[i]);
		sigaction(signals[i], &action, NULL);
	}
	sigprocmask(SIG_BLOCK, &blocked, &s->waiting);
	signal(SIGPIPE, SIG_IGN);
}

/* --- drawing -------------------------------------------------------------------------------- */

/* Sort keys of the keyboard: one letter per metric. */
struct sort_key {
	char key;
	enum figure_id sort;
	const char *name;
};

static size_t sort_keys(struct sort_key keys[FIGURE_CNT + 1])
{
	enum figure_id ids[FIGURE_CNT];
	size_t cnt = figure_list(USE_SORT, ids);

	for (size_t i = 0; i < cnt; i++)
		keys[i] = (struct sort_key) { (char)figures[ids[i]].place[USE_SORT].extra,
			ids[i], figures[ids[i]].word };
	keys[cnt++] = (struct sort_key) { 'n', SORT_BY_NAME, "name" };
	return cnt;
}

static void print_title(const struct stats_options *o, const struct report *r,
	const struct groups *groups, FILE *f)
{
	char when[TEXT_NUM_LEN], every[TEXT_NUM_LEN];
	struct sort_key keys[FIGURE_CNT + 1];
	size_t cnt = sort_keys(keys);

	fprintf(f, "%s  every %s  q quit  sort", text_time(r->time_ns, when),
		text_duration(o->interval_ns, every));
	for (size_t i = 0; i < cnt; i++)
		fprintf(f, o->choice.sort == keys[i].sort ? " [%s]" : " %s",
			keys[i].name);
	fputc('\n', f);
	if (!r->cnt)
		fprintf(f, "nothing is attached\n");
	for (size_t i = 0; i < groups->left_cnt; i++) {
		_cleanup_free_ char *safe = text_escape(groups->left[i].why.msg);

		fprintf(f, "%s\n", safe ? safe : "");
	}
}

/* Bytes of the line at @text that fit @width columns, cut at a blank where there is one. */
static size_t line_fit(const char *text, size_t len, unsigned int width)
{
	unsigned int columns = 0;
	size_t blank = 0, i = 0;

	while (i < len) {
		if (text[i] == '\033') { /* a colour takes none */
			i += strcspn(text + i, "m") + 1;
			continue;
		}
		columns += (text[i] & 0xc0) != 0x80;
		if (columns > width)
			return blank ? blank : len;
		if (text[i] == ' ' && i)
			blank = i;
		i++;
	}
	return len;
}

/* As many lines of @text as the terminal has, the long ones in several. */
static void put_frame(const char *text)
{
	struct winsize size = {};
	unsigned int rows = 24, width = 80;

	if (!ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) && size.ws_row) {
		rows = size.ws_row;
		width = size.ws_col;
	}
	fputs(HOME, stdout);
	while (*text && rows-- > 1) {
		size_t len = strcspn(text, "\n"), fits = line_fit(text, len, width);

		fwrite(text, 1, fits, stdout);
		fputs(LINE_END, stdout);
		text += fits;
		text += fits < len ? strspn(text, " ") : *text == '\n';
	}
	put(REST);
}

/* State between frames. */
struct frames {
	struct history *history;
	char *last; /* the text of the latest */
};

static void frames_done(struct frames *f)
{
	history_free(f->history);
	free(f->last);
}

static int draw(const struct stats_options *o, const struct reading *now,
	const struct reading *before, struct frames *frames, struct err *err)
{
	/* Rates and heat maps are of intervals; all else is since the reset. */
	bool of_interval = o->view->flags & VIEW_FRAME;
	_cleanup_report_ struct report r = {};
	_cleanup_free_ char *text = NULL;
	size_t size = 0;
	FILE *f;
	int code;

	code = report_make(o, now, of_interval ? before : NULL, &r, err);
	if (code)
		return code;
	r.history = frames->history;
	f = open_memstream(&text, &size);
	if (!f)
		return err_sys(err, -errno, "cannot show statistics");
	print_title(o, &r, &now->groups, f);
	r.first = false;
	code = o->format->print(&r, f);
	if (fclose(f) || code)
		return err_sys(err, code ? code : -errno, "cannot show statistics");
	put_frame(text);
	free(frames->last);
	frames->last = TAKE_PTR(text);
	return ferror(stdout) ? err_sys(err, -EIO, "cannot write to the terminal") : 0;
}

/* --- keys and signals ----------------------------------------------------------------------- */

enum wish { WISH_NONE, WISH_DRAW, WISH_READ, WISH_END };

static enum wish key_wish(struct stats_options *o, char key)
{
	struct sort_key keys[FIGURE_CNT + 1];
	size_t cnt = sort_keys(keys);

	if (key == 'q' || key == 'Q')
		return WISH_END;
	if (key == ' ')
		return WISH_READ;
	for (size_t i = 0; i < cnt; i++)
		if (keys[i].key == key) {
			o->choice.sort = keys[i].sort;
			return WISH_DRAW;
		}
	return WISH_NONE;
}

/* Ctrl-Z: restores the shell's terminal; the frame is redrawn when resumed. */
static void suspend(struct screen *s)
{
	screen_end(s);
	raise(SIGSTOP);
	screen_begin(s);
}

static enum wish signal_wish(struct screen *s)
{
	int sig = got;

	got = 0;
	if (sig == SIGTSTP)
		suspend(s);
	return !sig                                 ? WISH_NONE
		: sig == SIGTSTP || sig == SIGWINCH ? WISH_DRAW
						    : WISH_END;
}

static enum wish wait_for_wish(
	struct screen *s, struct stats_options *o, uint64_t until_ns)
{
	struct pollfd fd = { .fd = s->keys ? STDIN_FILENO : -1, .events = POLLIN };
	enum wish wish = WISH_NONE;
	char key;

	while (wish == WISH_NONE) {
		uint64_t left = ns_until(until_ns);
		struct timespec ts = timespec_of(left);
		int n;

		if (!left)
			return WISH_READ;
		n = ppoll(&fd, 1, &ts, &s->waiting);
		if (n < 0)
			wish = signal_wish(s);
		else if (n && read(STDIN_FILENO, &key, 1) == 1)
			wish = key_wish(o, key);
		else if (n)
			s->keys = false, fd.fd = -1; /* hung up */
	}
	return wish;
}

static int watch(struct screen *s, struct stats_options *o, struct stats_run *run,
	struct frames *frames, struct err *err)
{
	struct reading readings[2] = { READING_NONE, READING_NONE };
	uint64_t next = clock_ns(CLOCK_MONOTONIC),
		 end = o->duration_ns ? next + o->duration_ns : UINT64_MAX;
	enum wish wish = WISH_READ;
	bool any = false;
	int code = 0, at = 0;

	while (!code && wish != WISH_END && clock_ns(CLOCK_MONOTONIC) < end) {
		if (wish == WISH_READ) {
			at = !at;
			reading_done(&readings[at]);
			readings[at] = (struct reading)READING_NONE;
			code = reading_take(o, &readings[at], err);
			next = clock_ns(CLOCK_MONOTONIC) + o->interval_ns;
			run->left |= readings[at].groups.failed_cnt;
			if (!code && any)
				history_step(frames->history,
					readings[at].mono_ns - readings[!at].mono_ns);
		}
		if (!code)
			code = draw(o, &readings[at], any ? &readings[!at] : NULL, frames,
				err);
		if (!code)
			wish = wait_for_wish(s, o, next < end ? next : end);
		any |= wish == WISH_READ;
	}
	reading_done(&readings[0]);
	reading_done(&readings[1]);
	return code;
}

int stats_watch(struct stats_options *o)
{
	struct stats_run run = { .o = o };
	__cleanup(frames_done) struct frames frames = { .history = history_new() };
	struct screen screen = {};
	struct err err = {};
	int code;

	if (!o->interval_ns)
		o->interval_ns = 1000000000;
	if (!screen_can()) {
		if (!o->view_set)
			o->view = view_find("watch");
		return stats_loop(o);
	}
	if (o->view == view_find("hist"))
		o->view = view_find("heat");
	else if (!o->view_set || o->view == view_find("function"))
		o->view = view_find("watch");
	signals_begin(&screen);
	screen_begin(&screen);
	code = watch(&screen, o, &run, &frames, &err);
	screen_end(&screen);
	/* Leave the heat map on the terminal: it took a while to fill. */
	if (o->view == view_find("heat") && frames.last)
		put(frames.last);
	return code ? cmd_fail(o->g, &err) : stats_status(&run);
}
