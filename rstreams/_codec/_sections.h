/* Data sections of encoded messages, one after the other: see data_sections.py. Before this header: Python.h, stdint.h,
   string.h. */

enum { SECTION_HEAD = 8 };
static const char SECTION[4] = "\0Su\xb0"; /* described by 0x75, binary with a length of 4 bytes (3.2.6) */

static uint32_t read_length(const char *at)
{
    const unsigned char *told = (const unsigned char *)at;
    return (uint32_t)told[0] << 24 | (uint32_t)told[1] << 16 | (uint32_t)told[2] << 8 | told[3];
}

/* Return the length of the content of the section at `*at`, which moves behind its head; -1 if there is no whole one. */
static Py_ssize_t enter_section(const char *message, Py_ssize_t size, Py_ssize_t *at)
{
    if (*at < 0 || size - *at < SECTION_HEAD || memcmp(message + *at, SECTION, 4) != 0)
        return -1;
    uint32_t length = read_length(message + *at + 4);
    *at += SECTION_HEAD;
    return length > (uint64_t)(size - *at) ? -1 : (Py_ssize_t)length;
}

/* An iterator over the contents of sections. `_columns.c` also takes the contents from it without an object for each. */
typedef struct {
    PyObject_HEAD
    PyObject *messages; /* a tuple of bytes */
    Py_ssize_t message; /* the present one */
    Py_ssize_t begin;   /* where the sections of each message begin */
    Py_ssize_t at;      /* the place in the present message */
    Py_ssize_t left;    /* how many sections are left */
} Sections;

/* Return the content of the next section; NULL if there is none. It is valid as long as the iterator. */
static const char *next_section(Sections *self, Py_ssize_t *length)
{
    while (self->left > 0 && self->message < PyTuple_Size(self->messages)) {
        PyObject *message = PyTuple_GetItem(self->messages, self->message); /* borrowed */
        const char *start = PyBytes_AsString(message);
        const Py_ssize_t size = PyBytes_Size(message);
        if (self->at < size && (*length = enter_section(start, size, &self->at)) >= 0) {
            const char *content = start + self->at;
            self->at += *length;
            self->left--;
            return content;
        }
        self->message++;
        self->at = self->begin;
    }
    self->left = 0;
    return NULL;
}
