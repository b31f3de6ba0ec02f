/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Frames of Python: where an interpreter keeps them, and what is kept of the code that they are of. */
#ifndef FUNCSNOOP_SHARED_PYTHON_H
#define FUNCSNOOP_SHARED_PYTHON_H

/* How the frames of one call of the interpreter's function are recognized. */
enum fsn_python_how {
	FSN_PYTHON_EACH,  /* 3.10: one is */
	FSN_PYTHON_ENTRY, /* 3.11: the outermost says that it is that */
	FSN_PYTHON_SHIM,  /* since 3.12: behind them one of no code lies on the C stack */
};

/* Offsets, from the start of the containing object. */
struct fsn_python {
	/* In memory; in a table of the kernel from where the file's first byte would be. */
	unsigned long long runtime, code_type;
	unsigned short interpreters;              /* in _PyRuntime: the first one */
	unsigned short next_interpreter, threads; /* in PyInterpreterState */
	unsigned short next_thread, thread,
		number;         /* in PyThreadState; .number 0: it has none */
	unsigned short frame;   /* there, the innermost, */
	short in_cframe;        /* or in what .frame points to; -1: it is the frame */
	unsigned short cframe;  /* there, until 3.11: of the innermost call what lies on the stack, */
	unsigned short outer_cframe; /* and in that, of the next; */
	unsigned short root_cframe;  /* in PyThreadState, of 3.10: what is of none */
	unsigned short code, previous, at, owner;                   /* in a frame */
	unsigned short file, name, lines, first_line, instructions; /* in PyCodeObject */
	unsigned short type;                                        /* in any object */
	unsigned short ascii, compact;                              /* sizes of texts' heads */
	unsigned char minor, how; /* of 3.x; enum fsn_python_how */
	unsigned char shim, pad;  /* whose .owner that frame has */
	unsigned short frame_bytes, code_bytes; /* of these as much as has all that */
};

#define FSN_PYTHONS 64 /* interpreters: different files */

/* Bits of a frame of struct fsn_python and of a code object; PyUnicode's since 3.3. */
#define FSN_PYTHON_FRAME_BYTES 128
#define FSN_PYTHON_CODE_BYTES  256
#define FSN_PYTHON_TEXT_LEN    16 /* where a text has its length, */
#define FSN_PYTHON_TEXT_STATE  32 /* bits 2 to 4: bytes a character, 5: is it compact, 6: ASCII */
#define FSN_PYTHON_BYTES_LEN   16 /* bytes' length, */
#define FSN_PYTHON_BYTES       32 /* and themselves */

/*
 * A frame of Python on a stack: in the place of a file's number this, then 1 + the number of its
 * code, and how many instructions it has come.
 */
#define FSN_FRAME_PYTHON      0xfffeULL
#define FSN_PYTHON_CODE_SHIFT 24
#define FSN_PYTHON_AT_NONE    0xffffffU /* it has not begun */

#define FSN_PYTHON_SEEN   4096 /* code, and threads, of which it is kept which they are */
#define FSN_PYTHON_CODES  2048
#define FSN_PYTHON_PIECES 8192 /* of tables of lines */
#define FSN_PYTHON_PIECE  256
#define FSN_PYTHON_LINES  16384 /* of a longer table the first bytes */
#define FSN_PYTHON_NAME   152
#define FSN_PYTHON_FILE   320

/* Recorded code objects: alike in all processes, claimed by hash, never freed. */
struct fsn_python_code {
	unsigned long long hash;
	unsigned int first_piece; /* of its table of lines */
	unsigned int ready;       /* it is written */
	unsigned int lines;       /* bytes of that; 0: there was no room */
	unsigned int first_line;
	unsigned int name_len, file_len;             /* in characters */
	unsigned char name_kind, file_kind;          /* bytes a character */
	unsigned char minor, pad[5];
	char name[FSN_PYTHON_NAME]; /* of a longer one the begin, */
	char file[FSN_PYTHON_FILE]; /* and the end */
};

struct fsn_python_lines {
	unsigned char bytes[FSN_PYTHON_PIECE];
};

#endif
