RUN = "generate"


def replacements(student):
    return {"tinylm.decoding.filters.top_p": student.top_p}
