/* The fields of a transfer. Before this header: _frame_walk.h, _beside.h, _arrivals.h.

   Spec: AMQP 1.0 sections 2.7.5 (transfer) and 4.5.6 (transactional state). */

enum {
    MOST_DEPTH = 8,              /* of described values in the fields */
    IN_TRANSACTION = 0xffffffff, /* in the place of a message-format */
};

struct fields {
    const unsigned char *at, *end;
};

/* Skip a value of any type; false for anything else. */
static bool skip_value(struct fields *fields, int depth)
{
    static const unsigned char WIDTHS[] = {0, 1, 2, 4, 8, 16};
    size_t left = (size_t)(fields->end - fields->at);
    if (left == 0 || depth > MOST_DEPTH)
        return false;
    unsigned char kind = *fields->at;
    if (kind == 0) { /* described: the descriptor and the value follow */
        fields->at++;
        return skip_value(fields, depth + 1) && skip_value(fields, depth + 1);
    }
    size_t size;
    if (kind >= 0x40 && kind < 0xa0)
        size = 1 + (size_t)WIDTHS[(kind >> 4) - 4];
    else if (kind >= 0xa0 && (kind >> 4) % 2 == 0 && left >= 2)
        size = 2 + (size_t)fields->at[1];
    else if (kind >= 0xb0 && (kind >> 4) % 2 == 1 && left >= 5)
        size = 5 + (size_t)read_u32(fields->at + 1);
    else
        return false;
    if (size > left)
        return false;
    fields->at += size;
    return true;
}

/* Take the next field; return where it begins, or NULL for what is no value. A field that is not there is a null. */
static const unsigned char *next_field(struct fields *fields, uint32_t *left)
{
    static const unsigned char NOTHING[] = {0x40};
    if (*left == 0)
        return NOTHING;
    *left -= 1;
    const unsigned char *at = fields->at;
    return skip_value(fields, 0) ? at : NULL;
}

/* Read a uint; a null leaves `*value` as it was. False for anything else. */
static bool read_uint(struct fields *fields, uint32_t *left, uint32_t *value)
{
    const unsigned char *at = next_field(fields, left);
    if (at != NULL && (*at == 0x43 || *at == 0x52 || *at == 0x70))
        *value = *at == 0x43 ? 0 : *at == 0x52 ? at[1] : read_u32(at + 1);
    return at != NULL && (*at == 0x40 || *at == 0x43 || *at == 0x52 || *at == 0x70);
}

/* Read a boolean; a null is false. */
static bool read_bool(struct fields *fields, uint32_t *left, bool *value)
{
    const unsigned char *at = next_field(fields, left);
    *value = at != NULL && (*at == 0x41 || (*at == 0x56 && at[1] != 0));
    return at != NULL && ((*at >= 0x40 && *at <= 0x42) || *at == 0x56);
}

/* Skip a field of any type, or of one of these two and null. */
static bool skip_field_of(struct fields *fields, uint32_t *left, int one, int other)
{
    const unsigned char *at = next_field(fields, left);
    return at != NULL && (one == 0 || *at == 0x40 || *at == one || *at == other);
}

/* Tell whether a state is that of a message in a transaction (4.5.6). */
static bool is_transactional(const unsigned char *state)
{
    static const char NAME[] = "amqp:transactional-state:list";
    enum { CODE = 0x34, SIZE = sizeof(NAME) - 1 };
    if (state[0] != 0)
        return false;
    if (state[1] == 0x53)
        return state[2] == CODE;
    if (state[1] == 0x80)
        return read_u32(state + 2) == 0 && read_u32(state + 6) == CODE;
    if (state[1] == 0xa3)
        return state[2] == SIZE && memcmp(state + 3, NAME, SIZE) == 0;
    return state[1] == 0xb3 && read_u32(state + 2) == SIZE && memcmp(state + 6, NAME, SIZE) == 0;
}

struct transfer {
    uint32_t handle, format; /* `IN_TRANSACTION` for a message in a transaction, which nobody here can take */
    uint32_t number; /* its delivery-id, if it has one */
    bool has_number, more, aborted;
    size_t begin; /* of its payload */
};

/* Read the transfer of `size` bytes, of which `had` have come. `TOO_SHORT`: its fields have not come. `LOOK`: it is
   written in a way that the engine does not know, or cannot be decoded. */
static enum kind read_transfer(const unsigned char *frame, size_t had, size_t size, struct transfer *transfer)
{
    size_t at = 4 * (size_t)frame[4] + 4, width = frame[at - 1] == 0xc0 ? 1 : 4;
    if (frame[at - 1] != 0xc0 && frame[at - 1] != 0xd0)
        return LOOK;
    if (had < at + 2 * width)
        return size < at + 2 * width ? LOOK : TOO_SHORT;
    size_t list = width == 1 ? frame[at] : read_u32(frame + at);
    uint32_t left = width == 1 ? frame[at + 1] : read_u32(frame + at + 4);
    if (list < width || list > size - at - width)
        return LOOK;
    *transfer = (struct transfer){.handle = UINT32_MAX, .begin = at + width + list};
    if (had < transfer->begin)
        return TOO_SHORT;
    struct fields fields = {frame + at + 2 * width, frame + transfer->begin};
    bool unused = false;
    const unsigned char *state = NULL;
    bool is_read = read_uint(&fields, &left, &transfer->handle) &&
                   (transfer->has_number = left > 0 && fields.at < fields.end && *fields.at != 0x40, true) &&
                   read_uint(&fields, &left, &transfer->number) &&
                   skip_field_of(&fields, &left, 0xa0, 0xb0) && read_uint(&fields, &left, &transfer->format) &&
                   read_bool(&fields, &left, &unused) && read_bool(&fields, &left, &transfer->more) &&
                   skip_field_of(&fields, &left, 0x50, 0x50) && (state = next_field(&fields, &left)) != NULL &&
                   read_bool(&fields, &left, &unused) && read_bool(&fields, &left, &transfer->aborted);
    if (is_read && is_transactional(state))
        transfer->format = IN_TRANSACTION;
    return is_read && transfer->handle != UINT32_MAX ? PASSES : LOOK;
}

/* Tell whether a transfer has the delivery-id that is due: the next one of its session, or that of the message which it
   goes on with (2.7.5). The engine would end the connection because of another one, and the peer only its session. */
static bool is_in_order(const struct numbers *numbers, const struct arrivals *arrivals, const struct transfer *transfer)
{
    if (arrivals->inside)
        return !transfer->has_number || transfer->number == arrivals->number;
    return transfer->has_number ? !numbers->begun || transfer->number == numbers->next : numbers->begun;
}

/* Count a transfer that is in order, before `inside` is set anew; `begins` is what `inside` was not. */
static void count_transfer(struct numbers *numbers, struct arrivals *arrivals, const struct transfer *transfer, bool begins)
{
    if (begins) {
        arrivals->number = transfer->has_number ? transfer->number : numbers->next;
        *numbers = (struct numbers){arrivals->number + 1, true};
    }
}
