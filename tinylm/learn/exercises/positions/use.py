RUN = "train"


def replacements(student):
    return {"tinylm.model.transformer.sinusoids": student.sinusoids}
