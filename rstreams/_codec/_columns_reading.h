/* Encoded messages, read without an object for any part of them: see _columns.c.

   Functions that read return 0 for anything rare or malformed, which Python then reads, and 1 otherwise. */

enum Kind { ABSENT, FLAG, UNSIGNED, SIGNED, DOUBLE, TIME, UNIQUE_ID, BINARY, STRING, SYMBOL };

typedef struct {
    enum Kind kind;
    const unsigned char *at; /* of a text, bytes or a UUID */
    size_t size;
    int64_t number;
    double real;
} Value;

typedef struct {
    const unsigned char *at, *end; /* of the content of a map */
    size_t pairs;
} Map;

enum { HEADER = 0x70, DELIVERY_ANNOTATIONS, ANNOTATIONS, PROPERTIES, APPLICATION_PROPERTIES, DATA, SEQUENCE, VALUE };
enum { HEADER_FIELDS = 5, PROPERTIES_FIELDS = 13, MAX_PAIRS = 16 };

/* The flags of rstreams._codec.message_fields.Form. */
enum Allowed { OF_TEXT = 1, OF_NUMBER = 2, OF_BINARY = 4, OF_UNIQUE_ID = 8, OF_FLAG = 16, OF_TIME = 32 };

typedef struct {
    int forms;
    uint64_t limit;
} Field;

typedef struct {
    Value header[HEADER_FIELDS], properties[PROPERTIES_FIELDS];
    Map annotations, application_properties;
    enum { NO_BODY, DATA_BODY, STRING_BODY } body_kind;
    const unsigned char *body, *end; /* the content of the first section of the body; where the message ends */
    size_t body_size;                /* of that content */
} Read;

static uint64_t number_at(const unsigned char *at, size_t width)
{
    uint64_t number = 0;
    while (width--)
        number = number << 8 | *at++;
    return number;
}

static int is_ascii(const unsigned char *at, size_t size)
{
    const unsigned char *end = at + size;
    for (; end - at >= 8; at += 8) {
        uint64_t eight;
        memcpy(&eight, at, 8);
        if (eight & 0x8080808080808080u)
            return 0;
    }
    for (; at < end; at++)
        if (*at & 0x80)
            return 0;
    return 1;
}

static int is_text(const unsigned char *at, size_t size)
{
    if (is_ascii(at, size))
        return 1;
    PyObject *text = PyUnicode_DecodeUTF8((const char *)at, (Py_ssize_t)size, "strict");
    if (text == NULL) {
        PyErr_Clear();
        return 0;
    }
    Py_DECREF(text);
    return 1;
}

static int64_t signed_of(uint64_t bits, size_t width)
{
    const unsigned empty = 64 - 8 * (unsigned)width;
    return (int64_t)(bits << empty) >> empty;
}

/* Read a number or another value of a fixed width. */
static int read_fixed(unsigned code, const unsigned char *at, size_t width, Value *value)
{
    const uint64_t bits = width <= 8 ? number_at(at, width) : 0;
    value->number = (int64_t)bits;
    value->kind = UNSIGNED;
    switch (code) {
    case 0x40: value->kind = ABSENT; return 1;
    case 0x41: case 0x42: value->kind = FLAG; value->number = code == 0x41; return 1;
    case 0x56: value->kind = FLAG; return bits <= 1;
    case 0x43: case 0x44: case 0x50: case 0x52: case 0x53: case 0x60: case 0x70: case 0x80: return 1;
    case 0x51: case 0x54: case 0x55: case 0x61: case 0x71: case 0x81:
        value->kind = SIGNED;
        value->number = signed_of(bits, width);
        return 1;
    case 0x72: {
        const uint32_t half = (uint32_t)bits;
        float real;
        memcpy(&real, &half, 4);
        value->kind = DOUBLE;
        value->real = real;
        return 1;
    }
    case 0x82:
        value->kind = DOUBLE;
        memcpy(&value->real, &bits, 8);
        return 1;
    case 0x83: value->kind = TIME; return 1;
    case 0x98: value->kind = UNIQUE_ID; value->at = at; value->size = 16; return 1;
    default: return 0;
    }
}

/* Read the value at `*at`, which moves behind it, if it is a simple one. */
static int read_value(const unsigned char **at, const unsigned char *end, Value *value)
{
    static const size_t widths[] = {0, 1, 2, 4, 8, 16};
    if (*at >= end)
        return 0;
    const unsigned code = *(*at)++, kind = code >> 4;
    const size_t left = (size_t)(end - *at);
    if (kind >= 4 && kind <= 9) {
        const size_t width = widths[kind - 4];
        if (width > left || !read_fixed(code, *at, width, value))
            return 0;
        *at += width;
        return 1;
    }
    if (kind != 0xa && kind != 0xb)
        return 0;
    const size_t head = kind == 0xa ? 1 : 4;
    if (left < head)
        return 0;
    const uint64_t size = number_at(*at, head);
    if (size > left - head)
        return 0;
    value->at = *at + head;
    value->size = (size_t)size;
    *at = value->at + size;
    switch (code & 0xf) {
    case 0: value->kind = BINARY; return 1;
    case 1: value->kind = STRING; return is_text(value->at, value->size);
    case 3: value->kind = SYMBOL; return is_ascii(value->at, value->size);
    default: return 0;
    }
}

/* Enter the list or map at `*at`, whose constructors are `code` and `code` + 0x10. */
static int enter(const unsigned char **at, const unsigned char *end, unsigned code, size_t *count,
                 const unsigned char **its_end)
{
    if (*at >= end)
        return 0;
    const unsigned found = *(*at)++;
    const size_t width = found == code ? 1 : found == code + 0x10 ? 4 : 0;
    const size_t left = (size_t)(end - *at);
    if (width == 0 || left < 2 * width)
        return 0;
    const uint64_t size = number_at(*at, width);
    if (size < width || size > left - width)
        return 0;
    *its_end = *at + width + size;
    *count = (size_t)number_at(*at + width, width);
    *at += 2 * width;
    return 1;
}

static int is_allowed(const Value *value, const Field *field)
{
    switch (value->kind) {
    case ABSENT: return 1;
    case FLAG: return field->forms & OF_FLAG;
    case SIGNED:
        if (value->number < 0)
            return 0;
        /* fall through */
    case UNSIGNED: return (field->forms & OF_NUMBER) && (uint64_t)value->number <= field->limit;
    case TIME: return field->forms & OF_TIME;
    case UNIQUE_ID: return field->forms & OF_UNIQUE_ID;
    case BINARY: return field->forms & OF_BINARY;
    case STRING: case SYMBOL: return field->forms & OF_TEXT;
    default: return 0;
    }
}

static int read_fields(const unsigned char **at, const unsigned char *end, const Field *known, size_t fields,
                       Value *values)
{
    const unsigned char *its_end;
    size_t count;
    if (*at < end && **at == 0x45) {
        ++*at;
        return 1;
    }
    if (!enter(at, end, 0xc0, &count, &its_end) || count > fields)
        return 0;
    for (size_t i = 0; i < count; i++)
        if (!read_value(at, its_end, values + i) || !is_allowed(values + i, known + i))
            return 0;
    return *at == its_end;
}

/* Read a map from texts to simple values, without two equal keys. */
static int read_map(const unsigned char **at, const unsigned char *end, Map *map)
{
    const unsigned char *its_end;
    Value keys[MAX_PAIRS], value;
    size_t count;
    if (!enter(at, end, 0xc1, &count, &its_end) || count & 1 || count / 2 > MAX_PAIRS)
        return 0;
    map->at = *at;
    map->end = its_end;
    map->pairs = count / 2;
    for (size_t i = 0; i < map->pairs; i++) {
        Value *key = keys + i;
        if (!read_value(at, its_end, key) || (key->kind != STRING && key->kind != SYMBOL) ||
            !read_value(at, its_end, &value))
            return 0;
        for (size_t j = 0; j < i; j++)
            if (keys[j].size == key->size && memcmp(keys[j].at, key->at, key->size) == 0)
                return 0;
    }
    return *at == its_end;
}

/* Pass over the map at `*at`, whatever it has. */
static int skip_map(const unsigned char **at, const unsigned char *end)
{
    if (*at >= end || (**at != 0xc1 && **at != 0xd1))
        return 0;
    const size_t width = **at == 0xc1 ? 1 : 4;
    if ((size_t)(end - *at) < 1 + width)
        return 0;
    const uint64_t size = number_at(*at + 1, width);
    *at += 1 + width;
    if (size > (size_t)(end - *at))
        return 0;
    *at += size;
    return 1;
}

/* Read the first section of a body and those after it, which must be of the same kind; nothing follows them. */
static int read_body(unsigned code, const unsigned char *at, Read *read)
{
    const unsigned char *end = read->end;
    Value value = {0};
    if (!read_value(&at, end, &value))
        return 0;
    if (code == VALUE) {
        read->body_kind = value.kind == STRING ? STRING_BODY : NO_BODY;
        read->body = value.at;
        read->body_size = value.size;
        return at == end && (value.kind == STRING || value.kind == ABSENT);
    }
    read->body_kind = DATA_BODY;
    read->body = value.at;
    read->body_size = value.size;
    while (value.kind == BINARY && at < end) {
        if (end - at < 4 || at[0] != 0 || at[1] != 0x53 || at[2] != DATA)
            return 0;
        at += 3;
        if (!read_value(&at, end, &value))
            return 0;
    }
    return value.kind == BINARY;
}

static int read_message(const char *message, size_t size, const Field *header, const Field *properties, Read *read)
{
    const unsigned char *at = (const unsigned char *)message, *end = at + size;
    unsigned before = 0;
    memset(read, 0, sizeof *read);
    read->end = end;
    while (at < end) {
        if (end - at < 4 || at[0] != 0 || at[1] != 0x53 || at[2] <= before)
            return 0;
        before = at[2];
        at += 3;
        int good = 0;
        switch (before) {
        case HEADER: good = read_fields(&at, end, header, HEADER_FIELDS, read->header); break;
        case DELIVERY_ANNOTATIONS: good = skip_map(&at, end); break;
        case ANNOTATIONS: good = read_map(&at, end, &read->annotations); break;
        case PROPERTIES: good = read_fields(&at, end, properties, PROPERTIES_FIELDS, read->properties); break;
        case APPLICATION_PROPERTIES: good = read_map(&at, end, &read->application_properties); break;
        case DATA: case VALUE: return read_body(before, at, read);
        default: break;
        }
        if (!good)
            return 0;
    }
    return 1;
}

/* Take the fields of a section from a list with the forms and the largest number of each. */
static int read_known(PyObject *list, Field *fields, Py_ssize_t count)
{
    for (Py_ssize_t i = 0; i < count; i++) {
        unsigned long long limit;
        PyObject *item = i < PyList_Size(list) ? PyList_GetItem(list, i) : Py_None;
        if (!PyTuple_Check(item)) {
            PyErr_SetString(PyExc_TypeError, "the sections have other fields");
            return -1;
        }
        if (!PyArg_ParseTuple(item, "iK:make", &fields[i].forms, &limit))
            return -1;
        fields[i].limit = limit;
    }
    return 0;
}
