RUN = "encode"


def replacements(student):
    def encode(tokenizer, text):
        return student.encode(text, tokenizer.tokens)[1:-1]

    return {"tinylm.vocab.words.WordTokenizer.encode": encode}
